"""Conversations as chat templates want them, and system prompts without what changes each time."""

from __future__ import annotations

import pytest

from stoker.config import Canonical
from stoker.engine.protocol import MissReason, Tier
from stoker.service.cache_report import describe, message_at
from stoker.service.canonical import canonical
from stoker.service.conversation import Conversation, Tool, ToolCall, Turn
from stoker.service.entry import Prefix
from stoker.service.errors import InvalidMessages
from stoker.service.template import for_template

CALLED = Conversation(
    turns=(
        Turn("system", "One."),
        Turn("system", "Two."),
        Turn("user", "Look."),
        Turn("assistant", "", "Hm.", (ToolCall("call_123456", "look", '{"at": "x"}'),)),
        Turn("tool", "seen", call_id="call_123456"),
    ),
    tools=(Tool("look", None, {"type": "object"}),),
    thinking=False,
    effort="low",
)
BILLING = "x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"


def test_a_template_gets_one_system_message_arguments_as_a_mapping_and_its_options() -> None:
    messages, options = for_template(CALLED, short_call_ids=False)
    call = {"id": "call_123456", "type": "function", "function": {"name": "look", "arguments": {"at": "x"}}}
    assert messages == [
        {"role": "system", "content": "One.\n\nTwo."},
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "content": "seen", "tool_call_id": "call_123456", "name": "look"},
    ]
    function = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    assert options == {"tools": [function], "enable_thinking": False, "reasoning_effort": "low"}


def test_a_template_that_wants_nine_characters_gets_the_same_nine_for_call_and_answer() -> None:
    messages, _ = for_template(CALLED, short_call_ids=True)
    call_id = messages[2]["tool_calls"][0]["id"]
    assert len(call_id) == 9
    assert messages[3]["tool_call_id"] == call_id


def test_arguments_that_are_no_json_are_passed_on_as_they_were() -> None:
    turn = Turn("assistant", calls=(ToolCall("c", "f", "{broken"),))
    messages, _ = for_template(Conversation((turn,)), short_call_ids=False)
    assert messages[0]["tool_calls"][0]["function"]["arguments"] == "{broken"


def system(text: str, rules: Canonical | None = None) -> list[str]:
    conversation = Conversation((Turn("system", text), Turn("user", BILLING)))
    return [turn.text for turn in canonical(conversation, rules or Canonical()).turns]


def test_a_billing_header_is_dropped_from_system_prompts_only() -> None:
    assert system(f"{BILLING}\n\nYou are an agent.\nWork.") == ["You are an agent.\nWork.", BILLING]
    assert system(BILLING) == [BILLING], "nothing is left of the system prompt"
    assert system(f"{BILLING}\nHi", Canonical(drop_billing_header=False))[0].startswith("x-anthropic")


def test_a_date_stays_where_it_is_unless_it_is_to_be_moved_and_is_never_lost() -> None:
    text = "You are an agent.\nToday's date: 2026-01-31\nWork.\n"
    assert system(text)[0] == text
    moved = "You are an agent.\nWork.\n\nToday's date: 2026-01-31"
    assert system(text, Canonical(move_dates=True))[0] == moved


def test_only_a_line_that_begins_with_a_date_counts_as_one() -> None:
    text = "Never say what today's date is."
    assert system(text, Canonical(move_dates=True))[0] == text


def render(conversation: Conversation) -> list[int]:
    return list("".join(f"{turn.role}:{turn.text};" for turn in conversation.turns).encode() + b"answer:")


@pytest.mark.parametrize(("part", "message"), [("One", 0), ("Look", 2), ("seen", 4), ("answer", 4)])
def test_a_token_belongs_to_the_message_whose_text_it_is(part: str, message: int) -> None:
    ids = render(CALLED)
    assert message_at(bytes(ids).index(part.encode()), ids, CALLED, render) == message


def test_a_template_that_refuses_parts_of_a_conversation_names_no_message() -> None:
    def refuse(conversation: Conversation) -> list[int]:
        raise InvalidMessages("the last message must be a user's")

    assert message_at(0, [1, 2], CALLED, refuse) is None


def test_the_header_says_what_hit_and_why_no_more() -> None:
    assert describe(Prefix(1200, 1500, Tier.RAM), None) == "hit=1200/1500; tier=ram"
    diverged = Prefix(0, 1500, None, MissReason.DIVERGED, 7)
    assert describe(diverged, 3) == "hit=0/1500; miss=diverged; message=3"
