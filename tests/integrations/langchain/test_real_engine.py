"""LangChain on a real vLLM: two turns of a conversation, and LangChain's suite for chat models."""

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip(
    "langchain_tests", reason="LangChain is not installed: integrations/run_tests.sh"
)

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langgraph.checkpoint.memory import InMemorySaver

from inferscale import Memory
from inferscale_langchain import ChatInferScale, InferScaleMiddleware

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

KNOWN = [
    "I work as a nurse in the night shift",
    "I take the tram to the hospital",
    "My brother lives in Lisbon",
    "I am learning the cello",
    "I do not eat mushrooms",
    "My flat is on the third floor",
]
ASKED = "What is my cat called?"
TOO_SMALL = "a model of 135M parameters"


@pytest.fixture
def real_memory(real: Any) -> Iterator[Memory]:
    with Memory(real.url) as memory:
        yield memory


@pytest.fixture
def model(real: Any) -> ChatInferScale:
    return ChatInferScale(
        base_url=real.url, temperature=0, max_tokens=24, include_response_headers=True
    )


@pytest.fixture
def user() -> str:
    return f"user-{uuid.uuid4().hex}"


async def last_message(agent: Any, mode: str, text: str, user: str, **config: Any) -> Any:
    """The answer to one turn, called in one of four modes."""
    given: Any = {"messages": [HumanMessage(text)]}
    options: Any = {"context": {"user_id": user}, "config": {"configurable": config}}
    if mode == "invoke":
        return agent.invoke(given, **options)["messages"][-1]
    if mode == "ainvoke":
        return (await agent.ainvoke(given, **options))["messages"][-1]
    if mode == "stream":
        chunks = [c for c, _ in agent.stream(given, stream_mode="messages", **options)]
    else:
        stream = agent.astream(given, stream_mode="messages", **options)
        chunks = [chunk async for chunk, _ in stream]
    answer, *more = [chunk for chunk in chunks if isinstance(chunk, AIMessage)]
    return sum(more, start=answer)


def told(memory: Memory, user: str, cat: str) -> None:
    """What a user has told, with its KV."""
    facts = [{"role": "user", "content": fact} for fact in KNOWN]
    memory.add(facts, user_id=user)
    memory.add(f"My cat is called {cat}", user_id=user)
    memory.wait_until_ready(180, builds=True)


@pytest.mark.parametrize("mode", ["invoke", "ainvoke", "stream", "astream"])
async def test_the_second_turn_is_answered_from_injected_memory(
    real_memory: Memory, model: ChatInferScale, user: str, mode: str
) -> None:
    real_memory.add([{"role": "user", "content": fact} for fact in KNOWN], user_id=user)
    agent = create_agent(model, middleware=[InferScaleMiddleware(real_memory)])
    await last_message(agent, mode, "My cat is called Biscuit", user)
    real_memory.wait_until_ready(180, builds=True)
    stranger = await last_message(agent, mode, ASKED, f"{user}-other")
    answer = await last_message(agent, mode, ASKED, user)
    request_id = answer.response_metadata["headers"]["x-inferscale-request-id"]
    report = real_memory.report(request_id)
    assert "Biscuit" in answer.text
    assert "Biscuit" not in stranger.text
    assert report.items == len(KNOWN) + 1
    assert report.mode == "injected", report
    assert report.tokens is not None
    assert report.tokens.injected > report.tokens.prefilled


async def test_users_in_one_process_never_mix(
    real_memory: Memory, model: ChatInferScale, user: str
) -> None:
    cats = {f"{user}-1": "Biscuit", f"{user}-2": "Pepper", f"{user}-3": "Ziggy"}
    for name, cat in cats.items():
        told(real_memory, name, cat)
    agent = create_agent(model, middleware=[InferScaleMiddleware(real_memory, remember="nothing")])
    asked = [name for _ in range(2) for name in cats]
    answers = await asyncio.gather(*(last_message(agent, "ainvoke", ASKED, u) for u in asked))
    for name, answer in zip(asked, answers, strict=True):
        assert {cat for cat in cats.values() if cat in answer.text} == {cats[name]}


async def test_no_memory_text_gets_into_a_checkpoint(
    real_memory: Memory, model: ChatInferScale, user: str
) -> None:
    told(real_memory, user, "Biscuit")
    saver = InMemorySaver()
    agent = create_agent(model, middleware=[InferScaleMiddleware(real_memory)], checkpointer=saver)
    answer = await last_message(agent, "ainvoke", ASKED, user, thread_id="t1")
    assert "Biscuit" in answer.text
    saved = repr([(c.checkpoint, c.metadata, c.pending_writes) for c in saver.list(None)])
    assert "mh_" in saved  # the handle is what is kept
    assert "Memory of earlier conversations" not in saved
    assert not [fact for fact in KNOWN if fact in saved]


@pytest.fixture(scope="module")
def told_user(real: Any) -> Iterator[str]:
    """A user who has told something, for LangChain's suite."""
    name = f"user-{uuid.uuid4().hex}"
    with Memory(real.url) as memory:
        told(memory, name, "Biscuit")
        yield name
        memory.delete_all(user_id=name)


# LangChain's own: the suite gives it a model of Pydantic 1, and a field holds a parsed object.
@pytest.mark.filterwarnings("ignore:Received a Pydantic BaseModel V1 schema:UserWarning")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")
class TestChatModel(ChatModelIntegrationTests):
    """LangChain's suite, against our own sidecar with injected memory in every request.

    What the demo model cannot do is left out or expected to fail; docs/langchain.md says what and
    why. Its calls of tools are valid because vLLM holds them to the tools' schemas, with the flags
    that `make test-integrations` starts it with.
    """

    @pytest.fixture(autouse=True)
    def _sidecar(self, request: pytest.FixtureRequest, real: Any, told_user: str) -> None:
        request.instance.url, request.instance.user = real.url, told_user

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatInferScale

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "base_url": self.url,
            "max_tokens": 200,
            "temperature": 0,
            "memory": {"user_id": self.user},
        }

    @property
    def model_override_value(self) -> str:
        return "smollm2-135m-instruct"  # the default is no name: whatever is served

    @property
    def supports_json_mode(self) -> bool:
        return True

    @property
    def supports_anthropic_inputs(self) -> bool:
        return True

    @pytest.mark.xfail(reason=f"{TOO_SMALL}: it never decides to call a tool")
    def test_agent_loop(self, model: BaseChatModel) -> None:
        super().test_agent_loop(model)

    @pytest.mark.xfail(  # not strict: with other memory it closes the object
        reason=f"{TOO_SMALL}: it pads the empty object with blanks without end", strict=False
    )
    def test_tool_calling_with_no_arguments(self, model: BaseChatModel) -> None:
        super().test_tool_calling_with_no_arguments(model)

    @pytest.mark.xfail(  # not strict: with other memory it ends the string
        reason=f"{TOO_SMALL}: greedy, it fills one string until its tokens are used up",
        strict=False,
    )
    def test_bind_runnables_as_tools(self, model: BaseChatModel) -> None:
        super().test_bind_runnables_as_tools(model)

    @pytest.mark.xfail(  # not strict, as above; a schema of Pydantic 1 goes by a call of a tool
        reason=f"{TOO_SMALL}: greedy, it fills one string until its tokens are used up",
        strict=False,
    )
    def test_structured_output_pydantic_2_v1(self, model: BaseChatModel) -> None:
        super().test_structured_output_pydantic_2_v1(model)

    @pytest.mark.xfail(reason=f"{TOO_SMALL}: it does not copy the Chinese name")
    def test_unicode_tool_call_integration(self, model: BaseChatModel, **_: Any) -> None:
        super().test_unicode_tool_call_integration(model)

    @pytest.mark.xfail(  # not strict: a penalty on repetition, or other memory, helps
        reason=f"{TOO_SMALL}: greedy, it repeats itself until its tokens are used up", strict=False
    )
    def test_structured_output_optional_param(self, model: BaseChatModel) -> None:
        super().test_structured_output_optional_param(model)

    @pytest.mark.xfail(reason=f"{TOO_SMALL}: it nests keys instead of giving the two asked for")
    def test_json_mode(self, model: BaseChatModel) -> None:
        super().test_json_mode(model)
