"""An agent in Strands with memory: two threads, and the second one knows what the first was told.

    pip install 'inferscale-memory[strands]'
    inferscale-sidecar run --model demo -- python examples/strands_chat.py

A thread's messages hold nothing of the memory: it is injected as keys and values into each request.
"""

import argparse
import uuid

from strands import Agent

from inferscale import Memory
from inferscale_strands import InferScaleModel, InferScalePlugin

FIRST = (
    "My bicycle is a green Peugeot from 1978.",
    "I live in Oslo, near the harbour.",
    "I can only come on Saturdays.",
    "Last year you changed my chain.",
)
SECOND = "What colour is my bicycle?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"customer-{uuid.uuid4().hex[:8]}")
    user = parser.parse_args().user

    with Memory() as memory:
        memory.wait_until_ready()

        def thread() -> Agent:
            return Agent(
                model=InferScaleModel(params={"temperature": 0, "max_tokens": 256}),
                system_prompt="You are the support agent of a bicycle shop. Answer briefly.",
                plugins=[InferScalePlugin({"user_id": user}, client=memory)],
                callback_handler=None,
            )

        agent = thread()
        for text in FIRST:
            print(f"customer: {text}\nagent:    {str(agent(text)).strip()}")
        memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it

        print("\nAnother thread, another day:")
        print(f"customer: {SECOND}\nagent:    {str(thread()(SECOND)).strip()}")
        memory.delete_all(user_id=user)


if __name__ == "__main__":
    main()
