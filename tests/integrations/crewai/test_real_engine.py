"""CrewAI on a real vLLM: a second crew is answered from injected memory."""

from functools import partial
from typing import Any

import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed: integrations/run_tests.sh")

from crewai.llms.hooks import BaseInterceptor

from inferscale import Memory
from inferscale_crewai import InferScaleLLM

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:RememberTask callbacks:UserWarning"),
]


class Listening(BaseInterceptor[Any, Any]):
    """Keeps the ids of the reports, which CrewAI has no place for."""

    def __init__(self) -> None:
        self.reports: list[str] = []

    def on_outbound(self, message: Any) -> Any:
        return message

    def on_inbound(self, message: Any) -> Any:
        self.reports.append(message.headers["x-inferscale-request-id"])
        return message

    async def aon_outbound(self, message: Any) -> Any:
        return message

    async def aon_inbound(self, message: Any) -> Any:
        return self.on_inbound(message)


@pytest.fixture
def answer(ask: Any, real: Any) -> Any:
    """What a new crew answers, and the id of the report."""

    async def answering(memory: Memory, text: str, user: str, **options: Any) -> tuple[str, str]:
        listening, named = Listening(), {"user_id": user, "k": 10}
        way = {name: options.pop(name) for name in ("way",) if name in options}
        llm = InferScaleLLM(
            named,
            base_url=real.url,
            interceptor=listening,
            temperature=0,
            max_tokens=24,
            **options,
        )
        remember = {"client": memory, "remember": "user"}
        said = await ask(text, named, llm=llm, remember=remember, **way)
        (report,) = listening.reports
        return said, report

    return answering


async def test_the_second_crew_is_answered_from_injected_memory(
    answer: Any, way: Any, two_turns: Any
) -> None:
    await two_turns(partial(answer, way=way))


async def test_a_stream_is_answered_from_injected_memory(answer: Any, two_turns: Any) -> None:
    await two_turns(partial(answer, stream=True))
