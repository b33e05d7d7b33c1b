"""A chat loop with OpenAI's own client: memory without a line of InferScale in it.

    inferscale-sidecar run --model demo -- python examples/openai_chat.py

Two headers do it: one names the user, whose memories are then recalled and injected; the other has
what they say remembered. Each line is a conversation of its own (nothing is sent but that line), so
what the model knows of earlier lines, it knows from memory. Type lines, or give them: `--say`.
"""

import argparse
import os
import sys
import uuid

from openai import OpenAI

SYSTEM = "Answer in one short sentence."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"chat-{uuid.uuid4().hex[:8]}")
    parser.add_argument("--say", action="append", help="a line; may be given several times")
    given = parser.parse_args()
    client = OpenAI(
        base_url=os.environ.get("INFERSCALE_BASE_URL", "http://127.0.0.1:8420") + "/v1",
        api_key=os.environ.get("INFERSCALE_API_KEY", "none"),
        default_headers={
            "X-InferScale-User-Id": given.user,
            "X-InferScale-Remember": "user",
        },
    )
    model = client.models.list().data[0].id
    for line in given.say or (line.strip() for line in sys.stdin):
        answer = client.chat.completions.create(
            model=model,
            messages=[{"role": "system", "content": SYSTEM}, {"role": "user", "content": line}],
            temperature=0,
            max_tokens=32,
        )
        print(f"you:   {line}\nmodel: {(answer.choices[0].message.content or '').strip()}")
        report = answer.model_extra.get("memory") if answer.model_extra else None
        if report:
            print(f"       ({report['items']} memories, {report['mode']})")


if __name__ == "__main__":
    main()
