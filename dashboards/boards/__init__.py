"""The boards, in the order in which one looks: is it up, how is it for users, why, and what about the machine."""

from __future__ import annotations

from ..panels import Board
from .host import HOST
from .memory import MEMORY
from .requests import REQUESTS
from .soak import SOAK
from .uptime import UPTIME

BOARDS: tuple[Board, ...] = (UPTIME, REQUESTS, MEMORY, HOST, SOAK)
