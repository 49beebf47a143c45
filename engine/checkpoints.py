"""Where a row's unrepeatable state is saved, so that later rows may begin there: decisions only, no MLX.

A row can begin at a checkpoint and nowhere else, so they stand where a later prompt is likely to go on (at the end of
a prompt and of an answer) or to fork (where a prompt left what was known), and in between at a spacing that bounds
what is computed again. All stand at the ends of blocks.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field

MAX_ALONG_PROMPT = 8
LEAST_SPACING_TOKENS = 512
ANSWER_SPACING_TOKENS = 1024
"""How much of a long answer a crash of the engine may cost."""
ROW_SHARE = 8
"""The checkpoints along one prompt take at most this part of the memory for all that is kept."""


def spacing_along(prompt_tokens: int, checkpoint_bytes: int, budget_bytes: int) -> int | None:
    """Distance of the checkpoints along a prompt; None when there is no room for any.

    Powers of two times the least, so that prompts of different lengths stop at the same places.
    """
    count = min(MAX_ALONG_PROMPT, budget_bytes // ROW_SHARE // max(checkpoint_bytes, 1))
    if count == 0:
        return None
    spacing = LEAST_SPACING_TOKENS
    while prompt_tokens > count * spacing:
        spacing *= 2
    return spacing


@dataclass(slots=True)
class CheckpointPlan:
    """Of one row: explicit stops along its prompt, then the end of every block of its answer."""

    block_tokens: int
    prompt_end: int
    """The last block's end within the prompt; there a stop always is."""
    _stops: list[int] = field(default_factory=list)

    @classmethod
    def along(
        cls, *, begun: int, known: int, prompt_tokens: int, spacing: int | None, block_tokens: int
    ) -> CheckpointPlan:
        """For a row that begins at `begun` though blocks up to `known` are kept: there prompts have forked before."""
        plan = cls(block_tokens, (prompt_tokens - 1) // block_tokens * block_tokens)
        for stop in [known, plan.prompt_end, *range(0, prompt_tokens, spacing or prompt_tokens)]:
            if stop > begun:
                plan.add(stop)
        return plan

    def add(self, stop: int) -> None:
        """One more stop along the prompt."""
        if stop <= self.prompt_end and stop not in self._stops:
            insort(self._stops, stop)

    def stops_at(self, length: int) -> bool:
        """Whether that is a stop along the prompt."""
        return length in self._stops

    def next_after(self, length: int) -> int:
        """The next stop behind `length`."""
        place = bisect_right(self._stops, length)
        if place < len(self._stops):
            return self._stops[place]
        # One in the answer follows every block: the next turn goes on from the last of them.
        return (max(length, self.prompt_end) // self.block_tokens + 1) * self.block_tokens

    def is_lasting(self, stop: int) -> bool:
        """Whether a checkpoint stays when the row has made a later one."""
        return stop <= self.prompt_end or stop % ANSWER_SPACING_TOKENS == 0
