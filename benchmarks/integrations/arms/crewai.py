"""CrewAI: a crew of one agent and one task."""

import os
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

os.environ |= {  # it would send usage and traces home, and ask whether it may
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}

from benchmarks.integrations.arms import Arms, Call
from crewai import LLM, Agent, Crew, Task

from inferscale import Memory
from inferscale_crewai import InferScaleLLM, RememberTask


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`."""
    warnings.filterwarnings("ignore", "RememberTask callbacks", UserWarning)
    scope = {"user_id": user}
    extra = {"extra_body": {"memory": scope}}
    plain = LLM("hosted_vllm/scripted", base_url=f"{url}/v1", additional_params=extra)
    with Memory(url) as memory:

        def asking(llm: object, remember: RememberTask | None = None) -> Call:
            agent = Agent(role="helper", goal="help", backstory="Be brief.", llm=llm)

            async def ask(text: str) -> object:
                task = Task(description=text, expected_output="an answer", agent=agent)
                crew = Crew(agents=[agent], tasks=[task], task_callback=remember)
                return await crew.akickoff()

            return ask

        ours = InferScaleLLM(scope, base_url=url)
        yield Arms(
            by_hand=asking(plain),
            attached=asking(ours),
            remembered=asking(ours, RememberTask(scope, client=memory)),
        )
