"""A program that was written for Mem0, before and after.

    inferscale-sidecar run --model demo -- python examples/from_mem0.py

Step 1 changes one import: memories are kept here, and pasted into the prompt as ever. Step 2
recalls a handle instead of texts: the same memories, which the model does not have to read again.
"""

import argparse
import uuid
from typing import Any

from inferscale import OpenAI
from inferscale.compat.mem0 import Memory  # was: from mem0 import Memory

TOLD = [
    "My name is Hanne and I live in Oslo.",
    "I am allergic to nuts.",
    "My favourite colour is green.",
    "I play the violin in a small orchestra.",
    "My dog is called Loki.",
    "I work at the harbour.",
]
QUESTION = "What is my dog called?"


def answer_with_text(memory: Memory, client: OpenAI, user: str) -> Any:
    """As it was with Mem0: search, join the texts, put them into the system message."""
    found = memory.search(QUESTION, filters={"user_id": user}, top_k=6)
    texts = "\n".join(f"- {hit['memory']}" for hit in found["results"])
    system = f"You are a helpful assistant. What you know about the user:\n{texts}"
    return client.chat.completions.create(
        model="",
        messages=[{"role": "system", "content": system}, {"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=24,
    )


def answer_with_handle(memory: Memory, client: OpenAI, user: str) -> Any:
    """Now: recall, and attach the handle. No text of a memory goes through this program."""
    handle = memory.inferscale.recall(QUESTION, user_id=user, k=6)
    return client.with_memory(handle).chat.completions.create(
        model="",
        messages=[
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": QUESTION},
        ],
        temperature=0,
        max_tokens=24,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"hanne-{uuid.uuid4().hex[:8]}")
    user = parser.parse_args().user
    memory, client = Memory(), OpenAI()
    for fact in TOLD:
        memory.add(fact, user_id=user, infer=False)
    memory.inferscale.wait_until_ready(timeout_s=120, builds=True)

    before, after = (
        answer(memory, client, user) for answer in (answer_with_text, answer_with_handle)
    )
    report = (after.model_extra or {})["memory"]
    print(f"before: {(before.choices[0].message.content or '').strip()}")
    print(f"        {before.usage.prompt_tokens} tokens in the prompt, all of them read")
    print(f"after:  {(after.choices[0].message.content or '').strip()}")
    print(f"        {report['items']} memories, {report['mode']}: {report['tokens']}")
    memory.delete_all(user_id=user)


if __name__ == "__main__":
    main()
