"""Apps of ADK with memory, as the tests make and ask them."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from inferscale import Memory

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or LiteLLM looks for prices on GitHub

APP = "app"


async def run_async(runner: Any, message: Any, user: str, session: str, config: Any) -> list[Any]:
    options = {"user_id": user, "session_id": session, "run_config": config}
    return [event async for event in runner.run_async(new_message=message, **options)]


async def run_streaming(
    runner: Any, message: Any, user: str, session: str, config: Any
) -> list[Any]:
    from google.adk.agents.run_config import RunConfig, StreamingMode

    config = (config or RunConfig()).model_copy(update={"streaming_mode": StreamingMode.SSE})
    events = await run_async(runner, message, user, session, config)
    assert len([event for event in events if event.partial]) > 1
    return [event for event in events if not event.partial]


async def run(runner: Any, message: Any, user: str, session: str, config: Any) -> list[Any]:
    """ADK's blocking way: a thread with an event loop of its own."""
    options = {"user_id": user, "session_id": session, "run_config": config}
    return list(runner.run(new_message=message, **options))


@pytest.fixture(params=[run, run_async, run_streaming], ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def app_of(sidecar: Any, memory: Memory) -> Callable[..., Any]:
    """`app_of(…)` is a runner of an app with memory. What is given goes to agent and plugin."""
    pytest.importorskip("google.adk", reason="ADK is not installed: integrations/run_tests.sh")
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService

    from inferscale_adk import InferScaleLlm, InferScaleMemoryService, InferScalePlugin

    def make(name: str = APP, *, plugin: Any = None, model: Any = None, **agent: Any) -> Any:
        model = model or InferScaleLlm(base_url=sidecar.url)
        root = LlmAgent(name="helper", model=model, instruction="Be brief.", **agent)
        plugins = [InferScalePlugin(**{"client": memory, **(plugin or {})})]
        return Runner(
            app=App(name=name, root_agent=root, plugins=plugins),
            session_service=InMemorySessionService(),
            memory_service=InferScaleMemoryService(client=memory),
            auto_create_session=True,
        )

    return make


@pytest.fixture
def ask() -> Callable[..., Any]:
    """`ask(runner, text, user, …)` is the text of the answer."""
    from google.genai import types

    async def asking(
        runner: Any,
        given: Any,
        user: str,
        *,
        session: str = "s1",
        way: Any = run_async,
        config: Any = None,
    ) -> str:
        parts = [types.Part(text=given)] if isinstance(given, str) else given
        message = types.Content(role="user", parts=parts)
        events = await way(runner, message, user, session, config)
        final = [e for e in events if e.author != "user" and e.content and e.is_final_response()]
        return "".join(part.text or "" for part in final[-1].content.parts)

    return asking
