"""LiteLLM: a completion by the library, awaiting."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import litellm
from benchmarks.integrations.arms import Arms, Call

from inferscale import AsyncMemory
from inferscale_litellm import InferScaleCallback


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`.

    Callbacks are the process's, so each call sets its own; remembering happens after the answer and
    is not in the time of a call, so it is not measured.
    """
    async with AsyncMemory(url) as memory:
        target = {
            "model": "hosted_vllm/scripted",
            "api_base": f"{url}/v1",
            "api_key": "none",
        }

        def asking(callbacks: list[Any], **options: Any) -> Call:
            async def ask(text: str) -> object:
                litellm.callbacks = callbacks
                messages = [{"role": "user", "content": text}]
                return await litellm.acompletion(messages=messages, **target, **options)

            return ask

        ours = InferScaleCallback(base_url=url, client=memory, remember="nothing")
        yield Arms(
            by_hand=asking([], extra_body={"memory": {"user_id": user}}),
            attached=asking([ours], user=user),
        )
