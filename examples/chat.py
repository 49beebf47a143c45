"""A streamed answer over the OpenAI API: what the prefix cache saved is in its headers.

    .venv/bin/stoker connect openai      # prints OPENAI_BASE_URL and OPENAI_API_KEY
    .venv/bin/python examples/chat.py "Why is the sky blue?"

Kill the engine meanwhile: the loop below sees nothing but a pause. The library itself waits and tries again when the
server says 429 or 503 with `Retry-After`.
"""

import sys

from openai import OpenAI


def main(question: str) -> None:
    client = OpenAI(max_retries=5)
    ask = client.chat.completions.with_raw_response.create
    response = ask(
        model="default", messages=[{"role": "user", "content": question}], max_tokens=100, temperature=0, stream=True
    )
    for event in response.parse():
        for choice in event.choices:
            print(choice.delta.content or "", end="", flush=True)
    print(f"\n[cache: {response.headers['x-stoker-cache']}]")


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]) or "What is the capital of France?")
