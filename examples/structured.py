"""An answer that is sure to be JSON of a given shape, however small the model: a grammar holds it to the schema.

Bound texts and numbers: what may be endless, a small model makes endless, until `max_tokens` cuts it.

.venv/bin/stoker connect openai      # prints OPENAI_BASE_URL and OPENAI_API_KEY
.venv/bin/python examples/structured.py
"""

import json

from openai import OpenAI

PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "inhabitants": {"type": "integer", "minimum": 0, "maximum": 99_999_999},
    },
    "required": ["city", "inhabitants"],
    "additionalProperties": False,
}


def main() -> None:
    answer = OpenAI().chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "Name the capital of France and how many people live there."}],
        max_tokens=80,
        temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE, "strict": True}},
    )
    place = json.loads(answer.choices[0].message.content or "")
    print(f"{place['city']} has {place['inhabitants']:,} inhabitants, says the model")


if __name__ == "__main__":
    main()
