"""Agno with memory, against the real application: run, arun, streams, tools, sessions, teams."""

import asyncio
import copy
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("agno", reason="agno is not installed: integrations/run_tests.sh")

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.media import Image
from agno.models.message import Message
from agno.run.agent import RunErrorEvent
from agno.run.base import RunStatus
from agno.tools import tool
from pydantic import BaseModel

from inferscale import AsyncMemory, InvalidArgumentError, Memory
from inferscale_agno import InferScaleModel

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


def bees(count: int) -> str:
    """Counts bees."""
    return f"{count} bees"


@tool(requires_confirmation=True)
def honey(count: int) -> str:
    """Orders honey."""
    return f"{count} jars"


class Order(BaseModel):
    what: str


@pytest.fixture
def make(sidecar: Any, memory: Memory) -> Iterator[Any]:
    """`make(**arguments)` is an agent whose model gets these arguments."""
    clients = []

    def agent(**options: Any) -> Agent:
        model = InferScaleModel(**{"base_url": sidecar.url, "memory_client": memory, **options})
        clients.append(model)
        return Agent(
            model=model,
            instructions="Be brief.",
            tools=[bees, honey],
            db=InMemoryDb(),
            telemetry=False,
        )

    yield agent
    for model in clients:
        if model.client is not None:
            model.client.close()


@pytest.fixture(params=["run", "arun", "stream", "astream"])
def ask(request: pytest.FixtureRequest) -> Any:
    """`ask(agent, …)` runs an agent once, called in one of four modes; gives its run."""

    async def run(agent: Agent, given: Any, *, method: str = "run", **more: Any) -> Any:
        options = {"input": given, **more} if method == "run" else more
        if request.param == "run":
            return await asyncio.to_thread(getattr(agent, method), **options)
        if request.param == "arun":
            return await getattr(agent, f"a{method}")(**options)
        options |= {"stream": True, "yield_run_output": True}
        if request.param == "stream":
            events = list(getattr(agent, method)(**options))
        else:
            events = [event async for event in getattr(agent, f"a{method}")(**options)]
        return events[-1]

    return run


def has_failed(run: Any) -> bool:
    """Whether a run, or the last event of a streamed one, is an error."""
    return getattr(run, "status", None) == RunStatus.error or isinstance(run, RunErrorEvent)


def texts(memory: Memory, user: str) -> list[str]:
    return sorted(record.memory for record in memory.get_all(user_id=user).results)


async def test_the_second_session_knows_what_the_first_one_said(ask, make, user):
    agent = make()
    for text, is_known in ((FACT, False), (QUESTION, True)):
        run = await ask(agent, text, user_id=user)
        assert (FACT in run.content) == is_known


async def test_two_users_of_one_agent_at_once_never_mix(ask, make, memory, user):
    agent = make(remember="nothing")
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    asked = [ask(agent, "my sister", user_id=f"{user}-{n}") for n in range(4)]
    answers = [run.content for run in await asyncio.gather(*asked)]
    assert [answer.count("number") for answer in answers] == [1] * 4
    assert all(f"number {n}" in answer for n, answer in enumerate(answers))


async def test_every_call_of_a_run_with_tools_carries_the_same_memory(
    ask, make, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    run = await ask(make(memory={"user_id": user, "k": 3}), 'call bees {"count": 3}')
    assert FACT in run.content
    first, second = sidecar.sent()
    assert first["messages"][0] == second["messages"][0]
    assert second["messages"][-1]["content"] == "3 bees"
    assert texts(memory, user) == sorted([FACT, 'call bees {"count": 3}'])


async def test_a_run_that_waits_for_the_user_goes_on_with_what_it_was_asked(
    ask, make, memory, sidecar, user
):
    agent = make(memory={"user_id": user, "k": 1})
    memory.add(FACT, user_id=user)
    paused = await ask(agent, 'call honey {"count": 3}', session_id="s")
    assert paused.status == RunStatus.paused
    assert texts(memory, user) == sorted([FACT, 'call honey {"count": 3}'])
    for requirement in paused.requirements:
        requirement.confirm()
    done = await ask(
        agent,
        None,
        method="continue_run",
        run_id=paused.run_id,
        requirements=paused.requirements,
        session_id="s",
    )
    assert done.status == RunStatus.completed
    assert sidecar.sent()[-1]["messages"][-1]["content"] == "3 jars"
    assert texts(memory, user) == sorted([FACT, 'call honey {"count": 3}'])


async def test_memory_is_in_the_request_and_not_in_the_session(ask, make, memory, user):
    memory.add("I keep goats in Bergen", user_id=user)
    agent = make()
    await ask(agent, 'call bees {"count": 3}', user_id=user, session_id="s")
    (run,) = agent.get_session("s", user_id=user).to_dict()["runs"]
    kept = [m for m in run["messages"] if m["role"] != "assistant"]
    assert [m["role"] for m in kept] == ["system", "user", "tool"]
    rest = {name: value for name, value in run.items() if name not in ("messages", "content")}
    assert "Bergen" not in json.dumps([kept, rest], default=str)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([Message(role="user", content=FACT), Message(role="assistant", content="Oh")], [FACT]),
        (Message(role="user", content=[{"type": "text", "text": FACT}]), [FACT]),
        ([{"role": "user", "content": FACT}, {"role": "user", "content": " "}], [FACT]),
        (Order(what="bees"), []),
        ({"what": "bees"}, []),
    ],
)
async def test_what_counts_as_the_users_words(ask, make, memory, sidecar, user, given, said):
    memory.add("Bees are what I like", user_id=f"{user}-2")
    await ask(make(), given, user_id=user)
    assert texts(memory, user) == said
    sidecar.sent()
    await ask(make(remember="nothing"), given, user_id=f"{user}-2")
    assert "Bees are what I like" in sidecar.sent()[0]["messages"][0]["content"]


async def test_text_beside_an_image_is_what_the_user_says(ask, make, memory, user):
    image = Image(url="https://example.org/bee.png")
    await ask(make(), FACT, user_id=user, images=[image])
    assert texts(memory, user) == [FACT]


async def test_a_handle(ask, make, memory, user):
    memory.add(FACT, user_id=user)
    handle = memory.recall(QUESTION, user_id=user)
    assert FACT in (await ask(make(memory=handle.id, remember="nothing"), QUESTION)).content
    failed = await ask(make(memory=handle), QUESTION, user_id=user)
    assert has_failed(failed)
    assert "user_id" in failed.content


async def test_a_function_of_the_run_and_an_extra_body_of_the_models_own(
    ask, make, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    agent = make(
        memory=lambda run: {"user_id": run.session_id, "k": 1},
        remember="turn",
        extra_body={"top_k": 5},
        temperature=0.5,
    )
    run = await ask(agent, QUESTION, session_id=user)
    (sent,) = sidecar.sent()
    assert (sent["top_k"], sent["temperature"]) == (5, 0.5)
    assert FACT in sent["messages"][0]["content"]
    assert agent.model.extra_body == {"top_k": 5}
    assert texts(memory, user) == sorted([FACT, QUESTION, run.content])
    agent.model.extra_body = {"memory": None}
    await ask(agent, QUESTION, session_id=user)
    assert "Memory of earlier" not in sidecar.sent()[0]["messages"][0]["content"]


async def test_a_client_that_awaits_and_a_copied_model(sidecar, memory, user):
    async with AsyncMemory(sidecar.url) as awaiting:
        model = InferScaleModel(
            base_url=sidecar.url, memory_client=awaiting, memory_metadata={"from": "chat"}
        )
        agent = Agent(model=copy.deepcopy(model), telemetry=False)
        await agent.arun(FACT, user_id=user)
    (record,) = memory.get_all(user_id=user).results
    assert (record.memory, record.metadata) == (FACT, {"from": "chat"})


async def test_a_failed_write_is_logged_or_ends_the_run(ask, make, user, caplog):
    with Memory("http://127.0.0.1:9", max_retries=0) as nowhere:
        with caplog.at_level(logging.ERROR, logger="inferscale_shared"):
            run = await ask(make(memory_client=nowhere), FACT, user_id=user)
        assert "not remembered" in caplog.text
        assert run.status == RunStatus.completed
        strict = make(memory_client=nowhere, raise_write_errors=True)
        assert has_failed(await ask(strict, FACT, user_id=user))


async def test_a_run_for_nobody_fails_before_the_model_is_asked(ask, make, sidecar):
    failed = await ask(make(), QUESTION)
    assert has_failed(failed)
    assert "whose memory" in failed.content
    assert sidecar.sent() == []


def test_a_call_outside_of_a_run_carries_no_memory(make, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    agent = make(memory={"user_id": user})
    answer = agent.model.response(messages=[Message(role="user", content=QUESTION)])
    assert answer.content == "I was told: "
    assert "Memory of earlier" not in json.dumps(sidecar.sent())
    assert texts(memory, user) == [FACT]


@pytest.mark.parametrize(
    "arguments",
    [
        {"memory": "alice"},
        {"memory": {"k": 3}},
        {"remember": "all"},
        {"memory_client": 3},
        {"cache_response": True},
        {"http_client": object()},
    ],
)
def test_arguments_are_checked_at_once(arguments):
    with pytest.raises(InvalidArgumentError):
        InferScaleModel(**arguments)


async def test_a_run_says_what_became_of_the_memory(make, memory, user):
    memory.add(FACT, user_id=user)
    run = await make().arun(QUESTION, user_id=user)
    assert run.model_provider_data["model_extra"]["memory"]["items"] == 1
    assert FACT not in json.dumps(run.model_provider_data)
