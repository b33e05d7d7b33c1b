"""Google ADK: a run in a session of its own."""

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # or it asks GitHub for prices

from benchmarks.integrations.arms import Arms, Call
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.genai import types

from inferscale import AsyncMemory
from inferscale_adk import InferScaleLlm, InferScalePlugin


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`."""
    model = InferScaleLlm(base_url=url)
    async with AsyncMemory(url) as memory:

        def asking(*plugins: BasePlugin, **extra_body: object) -> Call:
            agent = LlmAgent(name="helper", model=model)
            runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=list(plugins)))
            runner.auto_create_session = True
            options = types.HttpOptions(extra_body=extra_body) if extra_body else None
            config = RunConfig(http_options=options)

            async def ask(text: str) -> object:
                message = types.Content(role="user", parts=[types.Part(text=text)])
                names = {"user_id": user, "session_id": uuid.uuid4().hex}
                run = runner.run_async(new_message=message, run_config=config, **names)
                return [event async for event in run]

            return ask

        def plugin(remember: str) -> InferScalePlugin:
            return InferScalePlugin(across_apps=True, async_client=memory, remember=remember)

        yield Arms(
            by_hand=asking(memory={"user_id": user}),
            attached=asking(plugin("nothing")),
            remembered=asking(plugin("user")),
        )
