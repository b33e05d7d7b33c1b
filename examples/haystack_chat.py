"""A chat in Haystack with memory: each line is a conversation of its own.

    inferscale-sidecar run --model demo -- python examples/haystack_chat.py

It needs `pip install 'inferscale-memory[haystack]'`. No history is passed from line to line: what
the model knows of earlier lines, it knows from memory, injected as keys and values.
Type lines, or give them: `--say`.
"""

import argparse
import sys
import uuid

from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage

from inferscale import Memory
from inferscale_haystack import InferScaleChatGenerator

AGENT = Agent(
    chat_generator=InferScaleChatGenerator(generation_kwargs={"temperature": 0, "max_tokens": 32}),
    system_prompt="Answer in one short sentence.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"chat-{uuid.uuid4().hex[:8]}")
    parser.add_argument("--say", action="append", help="a line; may be given several times")
    given = parser.parse_args()
    whose = {"memory": {"user_id": given.user}}
    with Memory() as memory:
        for line in given.say or (line.strip() for line in sys.stdin):
            memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it
            found = AGENT.run([ChatMessage.from_user(line)], generation_kwargs=whose)
            print(f"you:   {line}\nmodel: {found['last_message'].text.strip()}")


if __name__ == "__main__":
    main()
