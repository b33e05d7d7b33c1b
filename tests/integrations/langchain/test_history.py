"""LangChain's older memory classes: nothing is lost, nothing is mixed, in real chains."""

import random
import warnings
from typing import Any

import pytest

pytest.importorskip(
    "langchain_core", reason="LangChain is not installed: integrations/run_tests.sh"
)

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory

from inferscale import AsyncMemory, InvalidArgumentError, InvalidRequestError, Memory
from inferscale_langchain import ChatInferScale, InferScaleChatMessageHistory, InferScaleMemory

SAID: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("yes"),
    AIMessage("", tool_calls=[{"name": "bees", "args": {"n": 1}, "id": "c1"}]),
    ToolMessage("1 bee", tool_call_id="c1", artifact={"n": 1}),
    AIMessage("  One bee.\n", id="a1", usage_metadata=None),
    HumanMessage("yes", name="Maya", additional_kwargs={"x": [1, None]}),
    HumanMessage(
        [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": "http://i"}]
    ),
    AIMessage("خوب 👍"),
    HumanMessage("yes"),
]


@pytest.fixture
def history(memory: Memory, user: str) -> InferScaleChatMessageHistory:
    return InferScaleChatMessageHistory(f"thread-{user}", user_id=user, memory=memory)


def test_what_was_added_comes_back_equal_and_in_order(history):
    history.add_messages(SAID[:4])
    history.add_messages(SAID[4:])
    assert history.messages == SAID


async def test_awaited(sidecar, user):
    async with AsyncMemory(sidecar.url) as async_memory:
        history = InferScaleChatMessageHistory(f"t-{user}", async_memory=async_memory)
        await history.aadd_messages(SAID)
        assert await history.aget_messages() == SAID
        await history.aclear()
        assert await history.aget_messages() == []


def test_sessions_are_apart_and_clearing_one_leaves_the_other(memory, user):
    one, two = (
        InferScaleChatMessageHistory(f"{user}-{n}", user_id=user, memory=memory) for n in (1, 2)
    )
    one.add_user_message("hello")
    two.add_user_message("hello")
    one.clear()
    assert (one.messages, [m.content for m in two.messages]) == ([], ["hello"])


def test_the_same_message_added_again_is_one(history):
    message = HumanMessage("yes", id="m1")
    history.add_messages([message])
    history.add_messages([message])
    assert history.messages == [message]


def test_messages_can_be_recalled_in_another_thread(history, memory, user):
    history.add_user_message("My sister Maya keeps bees")
    handle = memory.recall("sister", user_id=user)
    assert [item.memory for item in handle.items] == ["My sister Maya keeps bees"]


def test_random_histories(memory, user):
    rng = random.Random(7)
    history = InferScaleChatMessageHistory(f"random-{user}", memory=memory)
    expected: list[BaseMessage] = []
    for _ in range(60):
        message = rng.choice((HumanMessage, AIMessage))(rng.choice(["a", "b", " c ", "é\u200d"]))
        history.add_messages([message])
        expected.append(message)
    assert history.messages == expected


def test_too_large_is_an_error(history):
    image = [{"type": "image_url", "image_url": "x" * 20_000}]
    with pytest.raises(InvalidRequestError, match="16384"):
        history.add_messages([HumanMessage(image)])


def test_no_session():
    with pytest.raises(InvalidArgumentError, match="session_id"):
        InferScaleChatMessageHistory("")


def test_runnable_with_message_history(sidecar, memory, user):
    prompt = ChatPromptTemplate([MessagesPlaceholder("past"), ("human", "{question}")])

    def session(session_id: str) -> InferScaleChatMessageHistory:
        return InferScaleChatMessageHistory(session_id, memory=memory)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LangChain deprecates the class; that is known
        chain = RunnableWithMessageHistory(
            prompt | ChatInferScale(base_url=sidecar.url),
            session,
            input_messages_key="question",
            history_messages_key="past",
        )
    for text in ("one", "two"):
        chain.invoke({"question": text}, config={"configurable": {"session_id": user}})
    assert [m["content"] for m in sidecar.sent()[-1]["messages"]] == ["one", "I was told: ", "two"]


def test_memory_in_a_conversation_chain(sidecar, memory, user):
    classic = pytest.importorskip("langchain_classic.chains")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        chain = classic.ConversationChain(
            llm=ChatInferScale(base_url=sidecar.url),
            memory=InferScaleMemory(memory=memory, user_id=user),
        )
    chain.invoke("My sister Maya keeps bees")
    chain.invoke("what does my sister keep")
    last = sidecar.sent()[-1]["messages"][-1]["content"]
    assert "- My sister Maya keeps bees" in last
    assert "Maya" not in repr(memory.get_all(user_id=f"{user}-other").results)


async def test_memory_by_hand(sidecar, memory, user):
    async with AsyncMemory(sidecar.url) as async_memory:
        chain_memory = InferScaleMemory(
            memory=memory, async_memory=async_memory, user_id=user, remember_answers=True
        )
        chain_memory.save_context({"input": "I keep bees"}, {"response": "Nice bees"})
        await chain_memory.asave_context({"input": "and goats"}, {"response": ""})
        loaded = chain_memory.load_memory_variables({"input": "bees"})
        assert list(loaded) == chain_memory.memory_variables == ["history"]
        assert "- I keep bees" in loaded["history"]
        assert "- Nice bees" in loaded["history"]
        assert await chain_memory.aload_memory_variables({"input": "bees"}) == loaded
        assert chain_memory.load_memory_variables({"input": " "}) == {"history": ""}
        await chain_memory.aclear()
        assert memory.get_all(user_id=user).results == []


@pytest.mark.parametrize("inputs", [{"a": "x", "b": "y"}, {}], ids=["two", "none"])
def test_it_must_be_clear_which_input_is_the_users(memory, user, inputs: dict[str, Any]):
    chain_memory = InferScaleMemory(memory=memory, user_id=user)
    with pytest.raises(InvalidArgumentError, match="input_key"):
        chain_memory.load_memory_variables(inputs)
