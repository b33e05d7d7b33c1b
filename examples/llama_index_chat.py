"""A LlamaIndex agent with memory: each line is a session of its own.

    inferscale-sidecar run --model demo -- python examples/llama_index_chat.py

It needs `pip install 'inferscale-memory[llama-index]'`. No history is passed from line to line:
what the model knows of earlier lines, it knows from memory, injected as keys and values.
Type lines, or give them: `--say`.
"""

import argparse
import asyncio
import sys
import uuid

from llama_index.core.agent.workflow import FunctionAgent

from inferscale import Memory
from inferscale_llama_index import InferScaleLLM, InferScaleMemory

SYSTEM = "Answer in one short sentence."


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"chat-{uuid.uuid4().hex[:8]}")
    parser.add_argument("--say", action="append", help="a line; may be given several times")
    given = parser.parse_args()
    scope = {"user_id": given.user}
    with Memory() as memory:
        llm = InferScaleLLM(scope, temperature=0, max_tokens=32)
        agent = FunctionAgent(llm=llm, tools=[], system_prompt=SYSTEM)
        for line in given.say or (line.strip() for line in sys.stdin):
            memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it
            session = InferScaleMemory.from_defaults(scope=scope, client=memory)
            print(f"you:   {line}\nmodel: {str(await agent.run(line, memory=session)).strip()}")


if __name__ == "__main__":
    asyncio.run(main())
