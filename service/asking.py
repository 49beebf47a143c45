"""From what a client asks, in any API, to the plan of its answer: tools, forced calls, grammars, sampling."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..engine.protocol import Grammar, GrammarKind
from .answering import Plan
from .canonical import canonical
from .context import Context
from .conversation import Conversation, Tool
from .errors import InvalidValue, UnsupportedParameter
from .markup import Markup
from .sampling import NO_WISHES, Wishes, sampling
from .tools import FORCED

AUTO, NONE, REQUIRED = "auto", "none", "required"


@dataclass(frozen=True)
class ToolChoice:
    """Which tool may or must be called; with `REQUIRED`, `name` is the one that must, or any."""

    mode: str = AUTO
    name: str | None = None


@dataclass(frozen=True)
class Ask:
    """A request in the service's own words. `grammar` is what the whole answer must match, `grammar_param` what the
    API calls it."""

    conversation: Conversation
    wishes: Wishes = NO_WISHES
    seed: int | None = None
    max_tokens: int | None = None
    choices: int = 1
    stops: Sequence[str] = ()
    tool_choice: ToolChoice = ToolChoice()
    one_call: bool = False
    grammar: Grammar | None = None
    grammar_param: str = "response_format"
    top_logprobs: int | None = None


async def plan(context: Context, ask: Ask, arrived_at: float) -> Plan:
    """Raises the `InvalidRequest` that names what cannot be."""
    model = context.text.model
    conversation = canonical(ask.conversation, context.server.canonical)
    conversation = conversation if ask.tool_choice.mode != NONE else replace(conversation, tools=())
    if conversation.tools and model.markup.call is None:
        raise UnsupportedParameter("this model's chat template knows no tools; leave them out", param="tools")
    markup, grammar = model.markup, ask.grammar
    if ask.tool_choice.mode == REQUIRED:
        grammar = forced_call(conversation.tools, ask.tool_choice.name)
        markup = Markup(call=FORCED)
    elif grammar is not None and conversation.tools:
        raise UnsupportedParameter(
            f"`{ask.grammar_param}` and `tools` exclude each other; leave one out", param=ask.grammar_param
        )
    elif not conversation.tools:
        markup = replace(markup, call=None)
    if grammar is not None:
        # Reasoning would have to match the grammar too.
        conversation = replace(conversation, thinking=False, effort=None)
    prompt = await context.text.render(conversation, most=context.window.tokens)
    if grammar is not None and prompt.in_reasoning:
        param = "tool_choice" if ask.grammar is None else ask.grammar_param
        raise UnsupportedParameter(f"this model always reasons first, so `{param}` cannot be kept", param=param)
    return Plan(
        prompts=[prompt],
        conversation=conversation,
        sampling=sampling(ask.wishes, model.recommended, ask.seed, ask.top_logprobs),
        arrived_at=arrived_at,
        max_tokens=ask.max_tokens,
        choices=ask.choices,
        stops=ask.stops,
        markup=markup,
        one_call=ask.one_call,
        grammar=grammar,
    )


def json_grammar(schema: dict[str, Any] | None) -> Grammar:
    """Answers that are this schema's, or any JSON object."""
    if schema is None:
        return Grammar(GrammarKind.JSON_OBJECT)
    return Grammar(GrammarKind.JSON_SCHEMA, json.dumps(schema))


def forced_call(tools: Sequence[Tool], name: str | None) -> Grammar:
    """The whole answer is one call, whatever tags the model would have put around it."""
    offered = [tool for tool in tools if name is None or tool.name == name]
    if not offered:
        wanted = "a tool" if name is None else f"`{name}`"
        raise InvalidValue(f"`tool_choice`: {wanted} is to be called, but `tools` has none such", param="tool_choice")
    return json_grammar({"anyOf": [_call_schema(place, tool) for place, tool in enumerate(offered)]})


def _call_schema(place: int, tool: Tool) -> dict[str, Any]:
    arguments = _moved(dict(tool.parameters), f"#/anyOf/{place}/properties/arguments")
    return {
        "type": "object",
        "properties": {"name": {"const": tool.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _moved(schema: Any, root: str) -> Any:
    """A schema whose references to itself still hold once it lies at `root`."""
    if isinstance(schema, list):
        return [_moved(item, root) for item in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(value, root) for key, value in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference[1:]
    return moved
