"""Admission: what is taken, what is turned away and with which error."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.config import Server
from stoker.service.admission import Conditions, output_bound, refusal, unready
from stoker.service.errors import ContextLengthExceeded, EngineLoading, EngineUnavailable, QueueFull, ShuttingDown

SERVER = Server(max_queue=4, resume_deadline_s=60, default_max_tokens=100)
WELL = Conditions(stopping=False, text_ready=True, engine_capacity=10, engine_down_s=None, in_flight=0)


def test_a_request_is_taken_when_all_is_well() -> None:
    assert refusal(WELL, SERVER) is None
    assert unready(WELL) is None


def test_nothing_is_taken_while_shutting_down() -> None:
    assert isinstance(refusal(replace(WELL, stopping=True), SERVER), ShuttingDown)


@pytest.mark.parametrize("loading", [replace(WELL, text_ready=False), replace(WELL, engine_capacity=None)])
def test_nothing_is_taken_before_tokenizer_and_engine_were_there(loading: Conditions) -> None:
    assert isinstance(refusal(loading, SERVER), EngineLoading)
    assert isinstance(unready(loading), EngineLoading)


def test_a_restart_of_the_engine_is_waited_for_but_not_for_ever() -> None:
    restarting = replace(WELL, engine_down_s=59.9)
    assert refusal(restarting, SERVER) is None
    assert isinstance(unready(restarting), EngineUnavailable), "health says so all the same"
    assert isinstance(refusal(replace(WELL, engine_down_s=60.0), SERVER), EngineUnavailable)


def test_the_queue_is_bounded_by_setting_and_by_what_the_engine_holds() -> None:
    assert refusal(replace(WELL, in_flight=3), SERVER) is None
    assert isinstance(refusal(replace(WELL, in_flight=4), SERVER), QueueFull)
    assert isinstance(refusal(replace(WELL, in_flight=2, engine_capacity=2), SERVER), QueueFull)
    assert isinstance(refusal(replace(WELL, in_flight=4, engine_down_s=1.0), SERVER), QueueFull)


@given(st.integers(0, 200), st.none() | st.integers(1, 200), st.integers(1, 200))
def test_an_admitted_request_always_fits_the_window(prompt: int, asked: int | None, window: int) -> None:
    try:
        bound = output_bound(prompt, asked, SERVER, window)
    except ContextLengthExceeded as error:
        assert prompt + (asked or 1) > window
        assert str(window) in str(error)
        assert str(prompt) in str(error)
    else:
        assert 1 <= bound <= window - prompt
        assert bound == (asked if asked is not None else min(100, window - prompt))


def test_an_answer_that_cannot_fit_names_the_parameter_to_change() -> None:
    with pytest.raises(ContextLengthExceeded, match="at most 10") as caught:
        output_bound(90, 11, SERVER, 100)
    assert caught.value.param == "max_tokens"
    with pytest.raises(ContextLengthExceeded, match="shorten the messages") as caught:
        output_bound(100, None, SERVER, 100)
    assert caught.value.param == "messages"
