"""Where a request's time went, as its client sees it, in the form of the header `server-timing`.

A resume counts to the phase that it interrupted. The headers of a stream go out when the engine has begun with it, so
the whole of it is a comment among the stream's last events.
"""

from __future__ import annotations

from dataclasses import dataclass

HEADER = "server-timing"


@dataclass
class Times:
    """Seconds on one clock: when the engine began, when the first token came, and the last; None is not yet.

    `resumes` counts how often another engine went on with it.
    """

    began_at: float | None = None
    first_token_at: float | None = None
    ended_at: float | None = None
    resumes: int = 0

    def describe(self, arrived_at: float) -> str:
        """The header's value: what is over so far, in milliseconds."""
        moments = [arrived_at, self.began_at, self.first_token_at, self.ended_at]
        parts = []
        for name, since, until in zip(("queue", "prefill", "decode"), moments, moments[1:], strict=False):
            if since is None or until is None:
                break
            parts.append(f"{name};dur={(until - since) * 1000:.1f}")
        if self.resumes:
            parts.append(f'resume;desc="{self.resumes}"')
        return ", ".join(parts)
