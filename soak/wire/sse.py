"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) as LLM servers use them."""

from __future__ import annotations

from collections.abc import Iterator


class Events:
    """Cuts bytes, as they arrive, into lines that say something: an event's data, or a comment."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Pairs of (field, value); a comment's field is empty. What is not complete yet waits for the rest."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            field, colon, value = line.rstrip(b"\r").partition(b":")
            if colon:
                yield field, value.removeprefix(b" ")
