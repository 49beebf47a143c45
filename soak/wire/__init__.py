"""The two APIs from a client's side: `sse` cuts a stream into events, `openai` and `anthropic` write what is asked and
read what comes, `reading` is what both make of it. Pure: bytes in, bytes out.
"""

from .anthropic import Anthropic
from .openai import OpenAI
from .reading import Malformed, Reading, Wire
from .sse import Events

WIRES: dict[str, Wire] = {"openai": OpenAI(), "anthropic": Anthropic()}

__all__ = ["WIRES", "Events", "Malformed", "Reading", "Wire"]
