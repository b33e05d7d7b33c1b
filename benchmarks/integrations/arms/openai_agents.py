"""OpenAI Agents SDK: a run with a session."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    SQLiteSession,
    set_tracing_disabled,
)
from benchmarks.integrations.arms import Arms, Call

from inferscale import AsyncMemory, AsyncOpenAI
from inferscale_agents import InferScaleModel, RememberingSession


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`."""
    set_tracing_disabled(True)
    scope, agent = {"user_id": user}, Agent(name="helper")
    async with AsyncOpenAI(base_url=url) as client, AsyncMemory(url) as memory:

        def asking(config: RunConfig, *, remembers: bool) -> Call:
            async def ask(text: str) -> object:
                session = SQLiteSession("one")  # in memory, empty
                kept = RememberingSession(session, memory, user_id=user) if remembers else session
                return await Runner.run(agent, text, session=kept, run_config=config)

            return ask

        plain = RunConfig(
            model=OpenAIChatCompletionsModel("", client),
            model_settings=ModelSettings(extra_body={"memory": scope}),
        )
        ours = RunConfig(model=InferScaleModel(scope, openai_client=client))
        yield Arms(
            by_hand=asking(plain, remembers=False),
            attached=asking(ours, remembers=False),
            remembered=asking(ours, remembers=True),
        )
