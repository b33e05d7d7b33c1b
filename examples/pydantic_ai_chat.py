"""A Pydantic AI agent with memory: each line is a conversation of its own.

    inferscale-sidecar run --model demo -- python examples/pydantic_ai_chat.py

It needs `pip install 'inferscale-memory[pydantic-ai]'`. No history is passed from line to line:
what the model knows of earlier lines, it knows from memory, injected as keys and values.
Type lines, or give them: `--say`.
"""

import argparse
import asyncio
import sys
import uuid

from pydantic_ai import Agent

from inferscale import Memory
from inferscale_pydantic_ai import InferScaleMemory, InferScaleModel

AGENT = Agent(
    InferScaleModel(settings={"temperature": 0, "max_tokens": 32}),
    instructions="Answer in one short sentence.",
    capabilities=[InferScaleMemory()],
)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"chat-{uuid.uuid4().hex[:8]}")
    parser.add_argument("--say", action="append", help="a line; may be given several times")
    given = parser.parse_args()
    with Memory() as memory:
        for line in given.say or (line.strip() for line in sys.stdin):
            memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it
            result = await AGENT.run(line, deps={"user_id": given.user})
            print(f"you:   {line}\nmodel: {result.output.strip()}")
            if report := (result.response.provider_details or {}).get("memory"):
                print(f"       ({report['items']} memories, {report['mode']})")


if __name__ == "__main__":
    asyncio.run(main())
