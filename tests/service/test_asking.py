"""Forced calls: a grammar that llguidance takes, and that lets through exactly the calls that are offered."""

from __future__ import annotations

import json

from llguidance import LLMatcher

from stoker.engine.protocol import GrammarKind
from stoker.service.asking import forced_call
from stoker.service.conversation import Tool

TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/node"}},
    "required": ["root"],
    "$defs": {
        "node": {"type": "object", "properties": {"below": {"$ref": "#/$defs/node"}, "name": {"type": "string"}}}
    },
}
TOOLS = (Tool("plant", None, TREE), Tool("look", None, {"type": "object", "properties": {"at": {"type": "integer"}}}))


def test_references_inside_a_tools_schema_still_hold() -> None:
    grammar = forced_call(TOOLS, None)
    assert grammar.kind is GrammarKind.JSON_SCHEMA
    schema = json.loads(grammar.source)
    node = schema["anyOf"][0]["properties"]["arguments"]["$defs"]["node"]
    assert node["properties"]["below"] == {"$ref": "#/anyOf/0/properties/arguments/$defs/node"}
    error = LLMatcher.validate_grammar(LLMatcher.grammar_from_json_schema(grammar.source))
    assert not error, error


def test_only_the_named_tool_is_left() -> None:
    (only,) = json.loads(forced_call(TOOLS, "look").source)["anyOf"]
    assert only["properties"]["name"] == {"const": "look"}
