"""Each miss gets the one reason that explains it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stoker.engine.blocks import chain
from stoker.engine.misses import EVICTED_BLOCKS, SEQUENCES, Miss, MissHistory
from stoker.engine.protocol import MissReason

BLOCK = 64
ROOT = b"root"
OPENING = [1, 2, 3]
"""What a chat template puts before every prompt."""


def explain(history: MissHistory, tokens: list[int], hit_blocks: int = 0) -> Miss | None:
    return history.explain(tokens, chain(ROOT, tokens, BLOCK), hit_blocks)


def prompt(first: int, length: int = 300) -> list[int]:
    return list(range(first, first + length))


def test_less_than_a_block_is_too_short() -> None:
    assert explain(MissHistory(BLOCK), prompt(0, BLOCK - 1)) == Miss(MissReason.TOO_SHORT)


def test_a_prompt_found_to_its_last_full_block_is_no_miss() -> None:
    assert explain(MissHistory(BLOCK), prompt(0, 300), hit_blocks=4) is None


def test_a_prompt_like_no_other_is_cold() -> None:
    history = MissHistory(BLOCK)
    history.remember(prompt(1000))
    assert explain(history, prompt(0)) == Miss(MissReason.COLD)


def test_the_block_that_was_evicted_says_so_and_the_one_after_it_does_not_matter() -> None:
    history = MissHistory(BLOCK)
    tokens = prompt(0)
    history.evicted(chain(ROOT, tokens, BLOCK)[2])
    assert explain(history, tokens, hit_blocks=2) == Miss(MissReason.EVICTED)
    assert explain(history, tokens, hit_blocks=1) == Miss(MissReason.COLD)


def test_a_changed_token_is_named() -> None:
    history = MissHistory(BLOCK)
    history.remember(prompt(0))
    changed = prompt(0)
    changed[200] = 9999
    assert explain(history, changed, hit_blocks=3) == Miss(MissReason.DIVERGED, 200)


def test_of_several_known_sequences_the_most_similar_one_counts() -> None:
    history = MissHistory(BLOCK)
    history.remember([*prompt(0, 250), 7, 7, 7])
    history.remember([*prompt(0, 100), 7, 7, 7])
    assert explain(history, prompt(0), hit_blocks=3) == Miss(MissReason.DIVERGED, 250)


def test_a_header_that_changes_with_each_request_is_found_inside_the_first_block() -> None:
    history = MissHistory(BLOCK)
    history.remember([*OPENING, 500, *prompt(1000, 400)])
    history.remember([*OPENING, *prompt(5000, 400)])
    # The nonce need not have as many tokens as the last one had.
    assert explain(history, [*OPENING, 600, 601, *prompt(1000, 400)]) == Miss(MissReason.DIVERGED, len(OPENING))


def test_prompts_that_share_only_the_template_s_opening_are_cold() -> None:
    history = MissHistory(BLOCK)
    history.remember([*OPENING, *prompt(1000)])
    assert explain(history, [*OPENING, *prompt(2000)]) == Miss(MissReason.COLD)


def test_a_conversation_that_goes_on_has_not_diverged() -> None:
    history = MissHistory(BLOCK)
    history.remember(prompt(0, 200))
    assert explain(history, prompt(0, 400), hit_blocks=3) == Miss(MissReason.COLD)


def test_a_difference_further_on_does_not_explain_a_miss_before_it() -> None:
    history = MissHistory(BLOCK)
    history.remember(prompt(0))
    changed = prompt(0)
    changed[200] = 9999
    assert explain(history, changed, hit_blocks=1) == Miss(MissReason.COLD)


def test_misses_are_due_to_the_version_until_the_first_hit() -> None:
    history = MissHistory(BLOCK, found_stale=True)
    assert explain(history, prompt(0)) == Miss(MissReason.VERSION)
    assert explain(history, prompt(1000)) == Miss(MissReason.VERSION)
    assert explain(history, prompt(0, 64), hit_blocks=1) is None
    assert explain(history, prompt(2000)) == Miss(MissReason.COLD)


def test_a_version_explains_only_what_nothing_else_does() -> None:
    history = MissHistory(BLOCK, found_stale=True)
    history.remember(prompt(0))
    assert explain(history, [*prompt(0, 100), 7]) == Miss(MissReason.VERSION)
    assert explain(history, [*prompt(0, 70), *prompt(500)], hit_blocks=1) == Miss(MissReason.DIVERGED, 70)


def test_turns_of_one_conversation_do_not_push_others_out() -> None:
    history = MissHistory(BLOCK)
    history.remember(prompt(100_000))
    for turn in range(1, 2 * SEQUENCES):
        history.remember(prompt(0, 10 * turn))
    changed = [*prompt(100_000, 100), 7, *prompt(0, 100)]
    assert explain(history, changed, hit_blocks=1) == Miss(MissReason.DIVERGED, 100)


def test_what_is_remembered_is_bounded() -> None:
    history = MissHistory(BLOCK)
    tokens = prompt(0)
    history.remember(tokens)
    history.evicted(chain(ROOT, tokens, BLOCK)[0])
    for other in range(SEQUENCES):
        history.remember(prompt(1000 + other))
    for other in range(EVICTED_BLOCKS):
        history.evicted(other.to_bytes(16))
    assert explain(history, tokens) == Miss(MissReason.COLD)
    assert explain(history, [*prompt(0, 100), *prompt(5000)], hit_blocks=1) == Miss(MissReason.COLD)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=64, max_size=200), st.data())
def test_the_index_of_the_difference_is_exact(tokens: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(tokens) - 1))
    changed = [*tokens]
    changed[at] = (tokens[at] + 1) % 2**32
    history = MissHistory(1)
    history.remember(tokens)
    assert history.explain(changed, chain(ROOT, changed, 1), at) == Miss(MissReason.DIVERGED, at)
