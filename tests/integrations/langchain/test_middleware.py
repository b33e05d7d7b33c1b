"""The middleware in real agents, against the real application: recall, attach, write, resume."""

import inspect
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

pytest.importorskip("langchain", reason="LangChain is not installed: integrations/run_tests.sh")
pytest.importorskip("langchain_openai")

import openai
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from inferscale import AsyncMemory, InferScaleError, InvalidArgumentError, Memory
from inferscale_langchain import ChatInferScale, InferScaleMiddleware

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


@tool
def bees(count: int) -> str:
    """Counts bees."""
    return f"{count} bees"


@tool
def approve(what: str) -> str:
    """Asks a person."""
    return str(interrupt(what))


class Agent:
    """An agent behind one face, whichever way it is called."""

    def __init__(self, graph: Any, mode: str) -> None:
        self.graph, self.mode = graph, mode

    async def ask(self, text: Any, **more: Any) -> str:
        """The answer's text; `text` may be a Command to resume with."""
        given = {"messages": [HumanMessage(text)]} if isinstance(text, str) else text
        if self.mode == "invoke":
            result = self.graph.invoke(given, **more)
        elif self.mode == "ainvoke":
            result = await self.graph.ainvoke(given, **more)
        elif self.mode == "stream":
            return "".join(map(_piece, self.graph.stream(given, stream_mode="messages", **more)))
        else:
            chunks = self.graph.astream(given, stream_mode="messages", **more)
            return "".join([_piece(chunk) async for chunk in chunks])
        return str(result["messages"][-1].content)


def _piece(chunk: Any) -> str:
    message = chunk[0]
    return str(message.content) if isinstance(message, AIMessage) else ""


@pytest.fixture(params=["invoke", "stream", "ainvoke", "astream", "ainvoke+async_memory"])
async def make(
    request: pytest.FixtureRequest, sidecar: Any, memory: Memory
) -> AsyncIterator[Callable[..., Agent]]:
    """`make(tools=…, checkpointer=…, **middleware)` builds an agent, called in each mode."""
    mode, _, with_async = request.param.partition("+")
    async_memory = AsyncMemory(sidecar.url) if with_async else None

    def build(
        *, tools: Any = (), checkpointer: Any = None, model: Any = None, **options: Any
    ) -> Agent:
        clients = {"async_memory": async_memory} if async_memory else {"memory": memory}
        middleware = InferScaleMiddleware(**{**clients, **options})
        chosen = model or ChatInferScale(base_url=sidecar.url)
        graph = create_agent(
            chosen, list(tools), middleware=[middleware], checkpointer=checkpointer
        )
        return Agent(graph, mode)

    yield build
    if async_memory:
        await async_memory.close()


def texts(memory: Memory, user: str) -> list[str]:
    return [record.memory for record in memory.get_all(user_id=user).results]


async def test_the_second_turn_knows_what_the_first_one_said(make, memory, user):
    agent = make()
    first = await agent.ask(FACT, context={"user_id": user})
    assert "bees" not in first
    assert texts(memory, user) == [FACT]
    assert FACT in await agent.ask(QUESTION, context={"user_id": user})


async def test_two_users_of_one_agent_never_mix(make, memory, user):
    agent = make()
    await agent.ask(FACT, context={"user_id": user})
    assert FACT not in await agent.ask(QUESTION, context={"user_id": f"{user}-other"})
    assert texts(memory, f"{user}-other") == [QUESTION]


async def test_one_recall_for_a_turn_with_tools(make, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    agent = make(tools=[bees])
    answer = await agent.ask('call bees {"count": 3}', context={"user_id": user})
    assert FACT in answer
    bodies = sidecar.sent()
    assert [FACT in json.dumps(body["messages"][0]) for body in bodies] == [True, True]
    assert bodies[1]["messages"][-1] == {
        **bodies[1]["messages"][-1],
        "role": "tool",
        "content": "3 bees",
    }


async def test_memory_text_is_not_in_any_checkpoint_and_the_handle_not_in_the_output(
    make, memory, user
):
    memory.add(FACT, user_id=user)
    saver = InMemorySaver()
    agent = make(tools=[bees], checkpointer=saver)
    config = {"configurable": {"thread_id": user}}
    context = {"user_id": user}
    await agent.ask('call bees {"count": 3}', context=context, config=config)
    kept = [saved for saved in saver.list(config)]
    assert any("inferscale_handle" in saved.checkpoint["channel_values"] for saved in kept)
    for saved in kept:
        values = dict(saved.checkpoint["channel_values"])
        # The scripted model repeats what it was told; its own words are not the memory's copy.
        values["messages"] = [m for m in values.get("messages", []) if not _echo(m)]
        assert "Maya" not in repr(values)
    assert "inferscale_handle" not in agent.graph.get_output_jsonschema().get("properties", {})


def _echo(message: Any) -> bool:
    return isinstance(message, AIMessage) and str(message.content).startswith("I was told")


async def test_resume_after_an_interrupt_with_an_expired_handle(make, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    agent = make(tools=[approve, bees], checkpointer=InMemorySaver())
    more = {"context": {"user_id": user}, "config": {"configurable": {"thread_id": user}}}
    await agent.ask('call approve {"what": "bees"}', **more)
    before = agent.graph.get_state(more["config"]).values["inferscale_handle"]
    sidecar.advance(days=2)
    answer = await agent.ask(Command(resume="yes"), **more)
    assert FACT in answer
    after = agent.graph.get_state(more["config"]).values["inferscale_handle"]
    assert after != before, "the new handle was not kept for the calls that follow"
    assert texts(memory, user).count('call approve {"what": "bees"}') == 1


async def test_a_wrong_model_is_not_taken_for_an_expired_handle(make, memory, sidecar, user):
    model = ChatInferScale(base_url=sidecar.url, model="another")
    with pytest.raises(openai.NotFoundError, match="no such model"):
        await make(model=model).ask(QUESTION, context={"user_id": user})
    assert texts(memory, user) == []


async def test_a_retried_turn_is_written_once_even_if_it_was_forgotten_meanwhile(
    make, memory, user
):
    agent = make()
    message = {"messages": [HumanMessage(FACT, id="m1")]}
    await agent.ask(message, context={"user_id": user})
    (record,) = memory.get_all(user_id=user).results
    memory.delete(record.id)
    await agent.ask(message, context={"user_id": user})
    assert texts(memory, user) == []


async def test_same_message_ids_in_two_threads_are_two_turns(make, memory, user):
    agent = make()
    for text in ("I like rye bread", "I like goats"):
        given = {"messages": [HumanMessage(text, id="1")]}
        await agent.ask(given, context={"user_id": user})
    assert set(texts(memory, user)) == {"I like rye bread", "I like goats"}


@pytest.mark.parametrize(
    ("remember", "kept"), [("user", 1), ("turn", 2), ("nothing", 0)], ids=lambda value: str(value)
)
async def test_what_is_remembered(make, memory, user, remember, kept):
    await make(remember=remember).ask(FACT, context={"user_id": user})
    assert len(texts(memory, user)) == kept


async def test_other_fields_of_the_body_are_kept(make, sidecar, user):
    model = ChatInferScale(base_url=sidecar.url, extra_body={"top_k": 5})
    await make(model=model, remember="nothing").ask(QUESTION, context={"user_id": user})
    assert sidecar.sent()[0]["top_k"] == 5


async def test_no_user_is_an_error_and_nothing_is_sent(make, sidecar):
    with pytest.raises(InvalidArgumentError, match="user_id"):
        await make().ask(QUESTION)
    assert sidecar.sent() == []


async def test_scope_may_be_fixed_or_computed(make, memory, user):
    memory.add(FACT, user_id=user, agent_id="helper")
    fixed = make(scope={"user_id": user, "agent_id": "helper"}, remember="nothing")
    assert FACT in await fixed.ask(QUESTION)
    computed = make(scope=lambda context: {"user_id": context["who"]}, remember="nothing")
    assert FACT in await computed.ask(QUESTION, context={"who": user})


async def test_a_failed_write_is_logged_and_the_answer_stays(make, sidecar, user, caplog):
    agent = make(metadata={"note": "x" * 20_000})
    with caplog.at_level(logging.ERROR, logger="inferscale_langchain"):
        answer = await agent.ask(FACT, context={"user_id": user})
    assert answer.startswith("I was told")
    assert "metadata" in caplog.text


async def test_a_failed_write_can_be_an_error(make, user):
    with pytest.raises(InferScaleError, match="metadata"):
        await make(metadata={"note": "x" * 20_000}, raise_write_errors=True).ask(
            FACT, context={"user_id": user}
        )


def test_every_hook_has_its_awaiting_twin():
    for name in ("before_agent", "wrap_model_call", "after_agent"):
        blocking = getattr(InferScaleMiddleware, name)
        awaiting = getattr(InferScaleMiddleware, f"a{name}")
        assert inspect.iscoroutinefunction(awaiting)
        assert list(inspect.signature(blocking).parameters) == list(
            inspect.signature(awaiting).parameters
        )


def test_blocking_calls_need_a_blocking_client(sidecar, user):
    middleware = InferScaleMiddleware(async_memory=AsyncMemory(sidecar.url))
    agent = create_agent(ChatInferScale(base_url=sidecar.url), middleware=[middleware])
    with pytest.raises(InvalidArgumentError, match="async_memory"):
        agent.invoke({"messages": [HumanMessage(FACT)]}, context={"user_id": user})


@pytest.mark.parametrize("arguments", [{"memory": "mh_1"}, {"remember": "all"}])
def test_arguments_that_make_no_sense(arguments):
    with pytest.raises(InvalidArgumentError):
        InferScaleMiddleware(**arguments)
