"""Agents and crews of CrewAI with memory, as the tests make and ask them."""

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest

from inferscale import Memory

os.environ |= {  # it would send usage and traces home, and ask whether it may
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_VERSION_CHECK": "true",
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}


async def kickoff(crew: Any) -> Any:
    return await asyncio.to_thread(crew.kickoff)


async def kickoff_async(crew: Any) -> Any:
    return await crew.kickoff_async()


async def akickoff(crew: Any) -> Any:
    return await crew.akickoff()


@pytest.fixture(params=[kickoff, kickoff_async, akickoff], ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def ask(sidecar: Any, memory: Memory) -> Callable[..., Any]:
    """`ask(text, memory, …)` is what a crew of one agent and one task answers."""
    pytest.importorskip("crewai", reason="CrewAI is not installed: integrations/run_tests.sh")
    from crewai import Agent, Crew, Task

    from inferscale_crewai import InferScaleLLM, RememberTask

    async def asking(
        text: str,
        named: Any,
        *,
        way: Any = kickoff,
        llm: Any = None,
        remember: Any = None,
        **agent: Any,
    ) -> str:
        llm = llm or InferScaleLLM(named, base_url=sidecar.url)
        who = {"role": "assistant", "goal": "answer", "backstory": "Answer in one short sentence."}
        helper = Agent(**who, llm=llm, **agent)
        task = Task(
            description=text, expected_output="a short answer to the question", agent=helper
        )
        remember = {"client": memory, "remember": "nothing", **(remember or {})}
        callback = RememberTask(named, **remember) if "user_id" in named else None
        crew = Crew(agents=[helper], tasks=[task], task_callback=callback)
        return str((await way(crew)).raw)

    return asking
