"""Admission: what is taken, what is turned away and with which error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config import Server
from stoker.engine.protocol import Limits, Priority
from stoker.service.admission import (
    Arrival,
    Conditions,
    Shed,
    ShedLevel,
    Window,
    output_bound,
    prompt_refusal,
    refusal,
    unready,
)
from stoker.service.errors import (
    ContextLengthExceeded,
    EngineLoading,
    EngineUnavailable,
    Overloaded,
    QueueFull,
    ShuttingDown,
)

SERVER = Server(
    max_queue=4,
    max_queue_tokens=1000,
    shed_long_prompt_tokens=300,
    resume_deadline_s=60,
    default_max_tokens=100,
)
WELL = Conditions(
    stopping=False,
    text_ready=True,
    shed=Shed(ShedLevel.NONE, "nothing is short"),
    engine_rows=10,
    engine_down_s=None,
    in_flight=0,
    clients=0,
    waiting_tokens=0,
    retry_after_s=7,
)
ONE = Arrival(Priority.INTERACTIVE, in_flight=0)
BATCH = Arrival(Priority.BATCH, in_flight=0)


def shedding(level: ShedLevel, **more: int) -> Conditions:
    return replace(WELL, shed=Shed(level, "memory"), **more)  # type: ignore[arg-type]  # all of `more` are counts


def test_a_request_is_taken_when_all_is_well() -> None:
    assert refusal(WELL, ONE, SERVER) is None
    assert unready(WELL) is None


def test_nothing_is_taken_while_shutting_down() -> None:
    assert isinstance(refusal(replace(WELL, stopping=True), ONE, SERVER), ShuttingDown)


@pytest.mark.parametrize("loading", [replace(WELL, text_ready=False), replace(WELL, engine_rows=None)])
def test_nothing_is_taken_before_tokenizer_and_engine_were_there(loading: Conditions) -> None:
    assert isinstance(refusal(loading, ONE, SERVER), EngineLoading)
    assert isinstance(unready(loading), EngineLoading)


def test_a_restart_of_the_engine_is_waited_for_but_not_for_ever() -> None:
    restarting = replace(WELL, engine_down_s=59.9)
    assert refusal(restarting, ONE, SERVER) is None
    assert isinstance(unready(restarting), EngineUnavailable), "health says so all the same"
    assert isinstance(refusal(replace(WELL, engine_down_s=60.0), ONE, SERVER), EngineUnavailable)


def test_the_queue_is_bounded_and_says_when_to_come_back() -> None:
    assert refusal(replace(WELL, in_flight=3), ONE, SERVER) is None
    full = refusal(replace(WELL, in_flight=4), ONE, SERVER)
    assert isinstance(full, QueueFull)
    assert full.retry_after_s == 7
    assert isinstance(refusal(replace(WELL, in_flight=4, engine_down_s=1.0), ONE, SERVER), QueueFull)


def test_when_nobody_knows_how_fast_it_goes_the_usual_wait_is_named() -> None:
    full = refusal(replace(WELL, in_flight=4, retry_after_s=None), ONE, SERVER)
    assert full is not None
    assert full.retry_after_s == QueueFull.retry_after_s


def test_the_tokens_that_wait_are_bounded_but_one_long_prompt_is_always_taken() -> None:
    assert prompt_refusal(WELL, 5000, SERVER) is None
    waiting = replace(WELL, waiting_tokens=900)
    assert prompt_refusal(waiting, 100, SERVER) is None
    full = prompt_refusal(waiting, 101, SERVER)
    assert isinstance(full, QueueFull)
    assert "1000" in str(full)


@pytest.mark.parametrize("level", list(ShedLevel)[1:])
def test_batch_and_long_prompts_go_first(level: ShedLevel) -> None:
    conditions = shedding(level)
    refused = refusal(conditions, BATCH, SERVER)
    assert isinstance(refused, Overloaded)
    assert "memory" in str(refused)
    assert refused.retry_after_s == 7
    assert isinstance(prompt_refusal(conditions, 301, SERVER), Overloaded)
    assert prompt_refusal(conditions, 300, SERVER) is None


def test_without_shedding_batch_and_long_prompts_are_taken() -> None:
    assert refusal(WELL, BATCH, SERVER) is None
    assert prompt_refusal(WELL, 301, SERVER) is None


def test_at_level_1_nobody_is_asked_for_a_share() -> None:
    greedy = Arrival(Priority.INTERACTIVE, in_flight=3)
    assert refusal(shedding(ShedLevel.BATCH_AND_LONG, in_flight=3, clients=1, engine_rows=2), greedy, SERVER) is None


@pytest.mark.parametrize(
    ("mine", "clients", "taken"),
    [(0, 0, True), (3, 2, True), (5, 2, False), (0, 9, True), (9, 1, True), (10, 1, False)],
)
def test_at_level_2_a_client_keeps_its_share_of_the_engines_rows(mine: int, clients: int, taken: bool) -> None:
    conditions = shedding(ShedLevel.OVER_SHARE, in_flight=3, clients=clients)
    refused = refusal(conditions, Arrival(Priority.INTERACTIVE, in_flight=mine), SERVER)
    assert refused is None if taken else isinstance(refused, Overloaded)


def test_at_level_3_everything_new_is_refused_and_health_says_so() -> None:
    assert isinstance(refusal(shedding(ShedLevel.ALL), ONE, SERVER), Overloaded)
    assert isinstance(refusal(replace(shedding(ShedLevel.ALL), engine_down_s=1.0), ONE, SERVER), Overloaded)
    assert isinstance(unready(shedding(ShedLevel.ALL)), Overloaded)
    assert unready(shedding(ShedLevel.OVER_SHARE)) is None


@given(st.integers(0, 200), st.none() | st.integers(1, 200), st.integers(1, 200))
def test_an_admitted_request_always_fits_the_window(prompt: int, asked: int | None, window: int) -> None:
    try:
        bound = output_bound(prompt, asked, SERVER, Window(window))
    except ContextLengthExceeded as error:
        assert prompt + (asked or 1) > window
        assert str(window) in str(error)
        assert str(prompt) in str(error)
    else:
        assert 1 <= bound <= window - prompt
        assert bound == (asked if asked is not None else min(100, window - prompt))


def test_an_answer_that_cannot_fit_names_the_parameter_to_change() -> None:
    with pytest.raises(ContextLengthExceeded, match="at most 10") as caught:
        output_bound(90, 11, SERVER, Window(100))
    assert caught.value.param == "max_tokens"
    with pytest.raises(ContextLengthExceeded, match="shorten the messages") as caught:
        output_bound(100, None, SERVER, Window(100))
    assert caught.value.param == "messages"


def test_a_request_that_the_memory_for_kv_can_never_hold_is_refused_with_both_numbers() -> None:
    window = Window.of(Limits(max_running=4, max_waiting=4, context_tokens=1000, kv_tokens=300), configured=800)
    with pytest.raises(ContextLengthExceeded, match="memory for KV holds 300 tokens, but 310 are asked for") as caught:
        output_bound(200, 110, SERVER, window)
    assert caught.value.param == "max_tokens"
    roomy = Limits(max_running=4, max_waiting=4, context_tokens=1000, kv_tokens=5000)
    assert Window.of(roomy, configured=800) == Window(800)
    assert Window.of(roomy, configured=None) == Window(1000)
