"""How two texts that should be the same part: tokens lost or repeated, or one that was drawn anew. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MAX_SHIFT = 400
SAME_LENGTH = 24
"""So many equal characters further on are no chance."""


@dataclass(frozen=True)
class Parting:
    """Where they part; `shifted` when the expected text goes on, but at another place."""

    at: int
    shifted: bool


def parting(got: str, expected: str) -> Parting | None:
    """None for the same text. Lost or repeated text shows as the expected one going on, at another place."""
    if got == expected:
        return None
    at = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), min(len(got), len(expected)))
    lost = any(_goes_on(got[at:], expected[at + shift :]) for shift in range(1, MAX_SHIFT))
    repeated = any(_goes_on(got[at + shift :], expected[at:]) for shift in range(1, MAX_SHIFT))
    return Parting(at, lost or repeated)


def _goes_on(text: str, expected: str) -> bool:
    return len(text) >= SAME_LENGTH and text[:SAME_LENGTH] == expected[:SAME_LENGTH]
