"""LlamaIndex on a real vLLM: two turns of a conversation, in each mode."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("llama_index", reason="LlamaIndex is not installed: integrations/run_tests.sh")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import SimpleChatEngine

from inferscale import Memory
from inferscale_llama_index import InferScaleLLM, InferScaleMemory

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture
def ids() -> list[str]:
    """Of the reports, in the order of the answers."""
    return []


@pytest.fixture
def llm(real: Any, ids: list[str]) -> Iterator[InferScaleLLM]:
    def note(response: httpx.Response) -> None:
        ids.append(response.headers["x-inferscale-request-id"])

    async def anote(response: httpx.Response) -> None:
        note(response)

    with httpx.Client(event_hooks={"response": [note]}) as http:
        yield InferScaleLLM(
            api_base=real.url,
            temperature=0,
            max_tokens=24,
            http_client=http,
            async_http_client=httpx.AsyncClient(event_hooks={"response": [anote]}),
        )


async def answered(llm: InferScaleLLM, client: Memory, user: str, mode: str, text: str) -> str:
    """The answer to one turn, in a session of its own."""
    mine = llm.with_memory({"user_id": user})
    session = InferScaleMemory.from_defaults(scope={"user_id": user}, client=client)
    if mode.startswith("agent"):
        agent = FunctionAgent(llm=mine, tools=[], streaming=mode == "agent streaming")
        return str(await agent.run(text, memory=session))
    engine = SimpleChatEngine.from_defaults(llm=mine, memory=session)
    if mode == "chat":
        return str(engine.chat(text))
    return "".join(engine.stream_chat(text).response_gen)


@pytest.mark.parametrize("mode", ["agent", "agent streaming", "chat", "stream_chat"])
async def test_the_second_turn_is_answered_from_injected_memory(
    llm: Any, ids: list[str], two_turns: Any, mode: str
) -> None:
    async def answer(memory: Memory, text: str, user: str) -> tuple[str, str]:
        said = await answered(llm, memory, user, mode, text)
        return said, ids[-1]

    await two_turns(answer)
