"""The bare loop to compare with: mlx-lm's own `BatchGenerator`, nothing around it.

A process of its own, so that it starts with OpenBLAS preloaded as Stoker's engine does. It reads lines of JSON from
standard input, {prompts, max_tokens} (token ids; no end of text), and answers each with {tokens, seconds}: how many
tokens all streams made and how long that took.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from mlx_lm import load
from mlx_lm.generate import BatchGenerator


def main() -> None:
    model = load(sys.argv[1])[0]
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(run(model, request["prompts"], request["max_tokens"])), flush=True)


def run(model: Any, prompts: list[list[int]], max_tokens: int) -> dict[str, float]:
    generator = BatchGenerator(model, stop_tokens=[])
    started = time.perf_counter()
    generator.insert(prompts, max_tokens=[max_tokens] * len(prompts))
    tokens = 0
    while responses := generator.next_generated():
        tokens += sum(response.finish_reason != "stop" for response in responses)
    seconds = time.perf_counter() - started
    generator.close()
    return {"tokens": tokens, "seconds": seconds}


if __name__ == "__main__":
    main()
