"""A chat with LiteLLM's library and memory: each line is a conversation of its own.

    inferscale-sidecar run --model demo -- python examples/litellm_chat.py

It needs `pip install 'inferscale-memory[litellm]'`. No history is passed from line to line: what
the model knows of earlier lines, it knows from memory, injected as keys and values. For a proxy,
see `litellm_config.yaml`. Type lines, or give them: `--say`.
"""

import argparse
import asyncio
import os
import sys
import uuid

import litellm
from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER

from inferscale import Memory, OpenAI
from inferscale_litellm import InferScaleCallback

SYSTEM = {"role": "system", "content": "Answer in one short sentence."}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"chat-{uuid.uuid4().hex[:8]}")
    parser.add_argument("--say", action="append", help="a line; may be given several times")
    given = parser.parse_args()
    with Memory() as memory, OpenAI() as client:
        litellm.callbacks = [InferScaleCallback(client=memory)]
        model = f"hosted_vllm/{client.models.list().data[0].id}"
        for line in given.say or (line.strip() for line in sys.stdin):
            answer = await litellm.acompletion(
                model=model,
                messages=[SYSTEM, {"role": "user", "content": line}],
                user=given.user,  # whose memory
                api_base=str(client.base_url),
                api_key=os.environ.get("INFERSCALE_API_KEY", "none"),
                temperature=0,
                max_tokens=32,
            )
            print(f"you:   {line}\nmodel: {answer.choices[0].message.content.strip()}")
            # LiteLLM calls back when it likes; this is only so that the next line can show it.
            await asyncio.sleep(0.1)
            await GLOBAL_LOGGING_WORKER.flush()
            await asyncio.to_thread(memory.wait_until_ready, timeout_s=120, builds=True)


if __name__ == "__main__":
    asyncio.run(main())
