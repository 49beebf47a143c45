"""System prompts without what changes from request to request, so that the prefix cache can know them again. Pure.

Each rule has a switch in `[server.canonical]`. None takes away what a model could need: a line that says something to
it is moved, never dropped.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..config import Canonical
from .conversation import Conversation, Turn

# The first line of Claude Code's system prompts; its nonce changes with every request.
_BILLING_HEADER = re.compile(r"^x-anthropic-billing-header:.*(?:\n|\Z)", re.MULTILINE)
_DATE = re.compile(
    r"^[ \t]*(?:Today's date(?: is|:)|Current date(?: is|:)|The current date is).*(?:\n|\Z)",
    re.MULTILINE | re.IGNORECASE,
)


def canonical(conversation: Conversation, rules: Canonical) -> Conversation:
    """The same to the model, and as much alike as can be from one request to the next."""
    turns = (_canonical(turn, rules) if turn.role == "system" else turn for turn in conversation.turns)
    # What held nothing but such a line is no message any more.
    kept = tuple(turn for turn in turns if turn.role != "system" or turn.text)
    return replace(conversation, turns=kept or conversation.turns)


def _canonical(turn: Turn, rules: Canonical) -> Turn:
    text = turn.text
    if rules.drop_billing_header:
        text = _BILLING_HEADER.sub("", text)
        if text != turn.text:
            text = text.lstrip("\n")
    if rules.move_dates:
        dates = [match.group().strip() for match in _DATE.finditer(text)]
        if dates:
            text = "\n".join([_DATE.sub("", text).rstrip("\n"), "", *dates])
    return replace(turn, text=text)
