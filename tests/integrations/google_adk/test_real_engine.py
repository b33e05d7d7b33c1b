"""ADK on a real vLLM: a second session is answered from injected memory, in each mode."""

from typing import Any

import pytest

pytest.importorskip("google.adk", reason="ADK is not installed: integrations/run_tests.sh")

from google.adk.models.lite_llm import LiteLLMClient

from inferscale import Memory
from inferscale_adk import InferScaleLlm

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict:UserWarning"),
]


class Listening(LiteLLMClient):
    """Keeps the ids of the reports, which ADK has no place for."""

    def __init__(self) -> None:
        self.reports: list[str] = []

    async def acompletion(self, *args: Any, **options: Any) -> Any:
        response = await super().acompletion(*args, **options)
        headers = response._hidden_params["additional_headers"]
        self.reports.append(headers["llm_provider-x-inferscale-request-id"])
        return response


async def test_the_second_turn_is_answered_from_injected_memory(
    app_of: Any, ask: Any, way: Any, real: Any, two_turns: Any
) -> None:
    sessions = iter(range(9))

    async def answer(memory: Memory, text: str, user: str) -> tuple[str, str]:
        client = Listening()
        model = InferScaleLlm(base_url=real.url, llm_client=client, temperature=0, max_tokens=24)
        plugin = {"client": memory, "across_apps": True, "memory": {"k": 10}}
        runner = app_of(model=model, plugin=plugin)
        said = await ask(runner, text, user, session=f"s{next(sessions)}", way=way)
        (report,) = client.reports
        return said, report

    await two_turns(answer)
