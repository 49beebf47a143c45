"""Whether a submission is taken into the engine, or why not. Pure."""

from __future__ import annotations

from .batch import Batch
from .protocol import Limits, RejectCode, Rejected, Submit


def refusal(submit: Submit, batch: Batch) -> Rejected | None:
    """Why this one can never run here, whatever else runs; None when it can."""
    problem = _problem(submit, batch)
    if problem is not None:
        return Rejected(submit.id, RejectCode.INVALID, problem)
    excess = _excess(len(submit.prompt) + submit.max_tokens, batch.limits)
    return Rejected(submit.id, RejectCode.CONTEXT_LENGTH_EXCEEDED, excess) if excess is not None else None


def _problem(submit: Submit, batch: Batch) -> str | None:
    """What makes a submission meaningless."""
    if not submit.prompt:
        return "the prompt is empty"
    if submit.max_tokens <= len(submit.emitted):
        return "max_tokens leaves nothing to generate"
    sequence = submit.prompt + submit.emitted
    if min(sequence) < 0 or max(sequence) >= batch.vocabulary:
        return f"a token id is outside the vocabulary of {batch.vocabulary}"
    return batch.refusal(submit.grammar) if submit.grammar is not None else None


def _excess(needed: int, limits: Limits) -> str | None:
    asked = f"prompt and output need {needed} tokens"
    if needed > limits.context_tokens:
        return f"{asked}, the context holds {limits.context_tokens}"
    if limits.kv_tokens is not None and needed > limits.kv_tokens:
        return f"{asked}, the memory for KV holds {limits.kv_tokens}; ask for less, or raise `engine.kv_budget_bytes`"
    return None
