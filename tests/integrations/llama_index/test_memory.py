"""LlamaIndex's chat memory and retriever, against the real application."""

import logging
import uuid
from typing import Any

import pytest

pytest.importorskip("llama_index", reason="LlamaIndex is not installed: integrations/run_tests.sh")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.query_engine import RetrieverQueryEngine

from inferscale import AsyncMemory, InferScaleError, InvalidArgumentError, Memory
from inferscale_llama_index import InferScaleLLM, InferScaleMemory, InferScaleRetriever

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


def texts(memory: Memory, user: str) -> list[str]:
    return [record.memory for record in memory.get_all(user_id=user).results]


def session(memory: Any, user: str, **options: Any) -> InferScaleMemory:
    return InferScaleMemory.from_defaults(scope={"user_id": user}, client=memory, **options)


@pytest.fixture
def llm(sidecar: Any, user: str) -> InferScaleLLM:
    return InferScaleLLM({"user_id": user}, api_base=sidecar.url)


async def test_the_second_session_of_an_agent_knows_what_the_first_one_said(llm, memory, user):
    agent = FunctionAgent(llm=llm, tools=[])
    for text, is_known in ((FACT, False), (QUESTION, True)):
        said = await agent.run(text, memory=session(memory, user))
        assert (FACT in str(said)) == is_known
    assert sorted(texts(memory, user)) == sorted([FACT, QUESTION])


@pytest.mark.parametrize("way", ["chat", "stream_chat", "achat", "astream_chat"])
async def test_so_does_the_second_session_of_a_chat_engine(llm, memory, user, way):
    for text, is_known in ((FACT, False), (QUESTION, True)):
        engine = SimpleChatEngine.from_defaults(llm=llm, memory=session(memory, user))
        if way == "chat":
            said = str(engine.chat(text))
        elif way == "achat":
            said = str(await engine.achat(text))
        elif way == "stream_chat":
            said = "".join(engine.stream_chat(text).response_gen)
        else:
            stream = await engine.astream_chat(text)
            said = "".join([token async for token in stream.async_response_gen()])
        assert (FACT in said) == is_known


async def test_only_the_users_words_are_remembered_and_once_answered(llm, memory, user):
    def bees(count: int) -> str:
        """Counts bees."""
        return f"{count} bees"

    kept = session(memory, user)
    await kept.aput(ChatMessage(content="one"))
    assert texts(memory, user) == []
    await kept.aput(ChatMessage(role="assistant", content="two"))
    assert texts(memory, user) == ["one"]
    await FunctionAgent(llm=llm, tools=[bees]).run('call bees {"count": 3}', memory=kept)
    assert sorted(texts(memory, user)) == sorted(["one", 'call bees {"count": 3}'])


async def test_an_answer_is_remembered_if_asked_to(memory, user):
    kept = session(memory, user, remember="turn")
    await kept.aput_messages(
        [ChatMessage(content="one"), ChatMessage(role="assistant", content="two")]
    )
    assert sorted(texts(memory, user)) == ["one", "two"]


async def test_a_session_that_is_emptied_forgets_what_was_not_answered_only(memory, user):
    kept = session(memory, user, session_id=uuid.uuid4().hex)
    await kept.aput(ChatMessage(content="unanswered"))
    await kept.areset()
    await kept.aput(ChatMessage(role="assistant", content="two"))
    assert texts(memory, user) == []
    assert [message.content for message in await kept.aget()] == ["two"]


async def test_a_client_that_awaits(sidecar, memory, user):
    async with AsyncMemory(sidecar.url) as client:
        kept = session(client, user)
        await kept.aput(ChatMessage(content=FACT))
        await kept.aput(ChatMessage(role="assistant", content="nice"))
        found = await InferScaleRetriever({"user_id": user}, client=client).aretrieve(QUESTION)
    assert [node.text for node in found] == [FACT]


async def test_a_failed_write_is_logged_or_raised(sidecar, user, caplog):
    turn = [ChatMessage(content="one"), ChatMessage(role="assistant", content="two")]
    with Memory("http://127.0.0.1:9", max_retries=0) as nowhere:
        with caplog.at_level(logging.ERROR, logger="inferscale_shared"):
            await session(nowhere, user).aput_messages(turn)
        assert "not remembered" in caplog.text
        with pytest.raises(InferScaleError):
            await session(nowhere, user, raise_write_errors=True).aput_messages(turn)


def test_a_retriever(memory, user):
    memory.add(FACT, user_id=user, metadata={"about": "bees"})
    memory.add("It rains", user_id=user)
    memory.add("My sister Maya keeps cats", user_id=f"{user}-other")
    retriever = InferScaleRetriever({"user_id": user}, client=memory, similarity_top_k=1)
    (found,) = retriever.retrieve(QUESTION)
    assert (found.text, found.metadata) == (FACT, {"about": "bees"})
    assert found.score > 0
    assert len(InferScaleRetriever({"user_id": user}, client=memory).retrieve(QUESTION)) == 2
    filtered = InferScaleRetriever({"user_id": user}, client=memory, filters={"about": "bees"})
    assert [node.text for node in filtered.retrieve("rain")] == [FACT]


def test_a_query_engine_reads_it_as_text(sidecar, memory, user):
    memory.add(FACT, user_id=user)
    retriever = InferScaleRetriever({"user_id": user}, client=memory)
    plain = InferScaleLLM(api_base=sidecar.url)
    RetrieverQueryEngine.from_args(retriever, llm=plain).query(QUESTION)
    (sent,) = sidecar.sent()
    assert FACT in sent["messages"][-1]["content"]


@pytest.mark.parametrize(
    "arguments", [{"scope": {}}, {"scope": {"handle": "mh_1"}}, {"remember": "all"}, {"client": 3}]
)
def test_arguments_are_checked_at_once(arguments, user):
    with pytest.raises((InvalidArgumentError, ValueError)):
        InferScaleMemory.from_defaults(**{"scope": {"user_id": user}, **arguments})


def test_a_retriever_needs_a_scope(memory):
    with pytest.raises(InvalidArgumentError, match="user_id"):
        InferScaleRetriever({"k": 3}, client=memory)
