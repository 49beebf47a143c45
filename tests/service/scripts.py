"""Texts that a simulated engine speaks, and a model folder whose template knows tools."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

THOUGHT = "Weather, so I call."
SAID = "Let me look."
ARGUMENTS = {"city": "Köln"}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Köln"}}\n</tool_call>'
TOOL_SCRIPT = f"<think>\n{THOUGHT}\n</think>\n\n{SAID}\n\n{CALL}"
SCHEMA: dict[str, object] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

TOOL_TEMPLATE = (
    "{% if tools %}{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% for tool_call in message.tool_calls or [] %}{% set tool_call = tool_call.function %}"
    "<tool_call>{{ tool_call.name }} {{ tool_call.arguments | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def with_tools(source: Path, folder: Path) -> Path:
    """A copy of the tiny model in `source` whose answers may hold calls, and end at the script's end."""
    shutil.copytree(source, folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": TOOL_TEMPLATE}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0], "temperature": 0.25, "top_k": 7}))
    return folder
