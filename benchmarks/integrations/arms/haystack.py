"""Haystack: a run of the chat generator, without a pipeline around it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when haystack is imported

from benchmarks.integrations.arms import Arms
from haystack.components.generators.chat import OpenAIChatGenerator

from inferscale import AsyncOpenAI
from inferscale_haystack import InferScaleChatGenerator


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`."""
    scope = {"user_id": user}
    async with AsyncOpenAI(base_url=url) as client:
        theirs = OpenAIChatGenerator(model="", generation_kwargs={"extra_body": {"memory": scope}})
        attached = InferScaleChatGenerator(scope, api_base_url=url, remember="nothing")
        remembered = InferScaleChatGenerator(scope, api_base_url=url)
        ours = (attached, remembered)
        for generator in (theirs, *ours):
            generator.async_client = client
        yield Arms(
            by_hand=theirs.run_async,
            attached=attached.run_async,
            remembered=remembered.run_async,
        )
        for generator in ours:
            await generator.close_async()
