"""An agent of Microsoft Agent Framework with memory: each line is a session of its own.

    inferscale-sidecar run --model demo -- python examples/agent_framework_chat.py

It needs `pip install 'inferscale-memory[agent-framework]'`. No history is passed from line to line:
what the model knows of earlier lines, it knows from memory, injected as keys and values.
Type lines, or give them: `--say`.
"""

import argparse
import asyncio
import sys
import uuid

from agent_framework import Agent

from inferscale import Memory
from inferscale_agent_framework import InferScaleChatClient, InferScaleProvider

AGENT = Agent(
    InferScaleChatClient(),
    instructions="Answer in one short sentence.",
    context_providers=[InferScaleProvider()],
    default_options={"temperature": 0, "max_tokens": 32},
)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"chat-{uuid.uuid4().hex[:8]}")
    parser.add_argument("--say", action="append", help="a line; may be given several times")
    given = parser.parse_args()
    with Memory() as memory:
        for line in given.say or (line.strip() for line in sys.stdin):
            memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it
            session = AGENT.create_session()
            session.state["user_id"] = given.user
            response = await AGENT.run(line, session=session)
            print(f"you:   {line}\nmodel: {response.text.strip()}")
            if report := response.additional_properties.get("memory"):
                print(f"       ({report['items']} memories, {report['mode']})")


if __name__ == "__main__":
    asyncio.run(main())
