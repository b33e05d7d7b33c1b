"""CrewAI with memory, against the real application: crews and agents, in all modes."""

import asyncio
import json
import logging

import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed: integrations/run_tests.sh")

from crewai import Agent, Crew, Task
from crewai.tools import tool

from inferscale import APIError, InvalidArgumentError, Memory
from inferscale_crewai import InferScaleLLM, RememberTask

# CrewAI says so of every callback that is not a function of a module.
pytestmark = pytest.mark.filterwarnings("ignore:RememberTask callbacks:UserWarning")

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "What does my sister Maya keep?"


@tool("bees")
def bees(count: int) -> str:
    """Counts bees."""
    return f"{count} bees"


def kept(memory: Memory, user: str) -> list[str]:
    return sorted(record.memory for record in memory.get_all(user_id=user).results)


async def test_the_second_crew_knows_what_the_first_one_was_asked(ask, way, user):
    told = {"remember": {"remember": "user"}}
    assert FACT not in await ask(FACT, {"user_id": user}, way=way, **told)
    assert FACT in await ask(QUESTION, {"user_id": user}, way=way)


async def test_a_stream(ask, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    llm = InferScaleLLM({"user_id": user}, base_url=sidecar.url, stream=True)
    assert FACT in await ask(QUESTION, {"user_id": user}, llm=llm)
    assert all(body["stream"] for body in sidecar.sent())


async def test_users_at_once_never_mix(ask, way, memory, sidecar, user):
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    asked = [
        ask("Which number is my sister?", {"user_id": f"{user}-{n}"}, way=way) for n in range(4)
    ]
    answers = await asyncio.gather(*asked)
    assert all(f"sister is number {n}" in answer for n, answer in enumerate(answers))
    assert [answer.count("sister is number") for answer in answers] == [1] * 4


async def test_every_call_of_a_task_with_tools_carries_the_same_memory(
    ask, way, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    named = {"user_id": user, "k": 3}
    assert FACT in await ask('call bees {"count": 3}', named, way=way, tools=[bees])
    first, *more = sidecar.sent()
    assert FACT in first["messages"][0]["content"]
    assert more
    assert all(body["messages"][0] == first["messages"][0] for body in more)
    assert "3 bees" in json.dumps(more[-1]["messages"])


async def test_memory_is_searched_with_the_task_and_not_with_the_prompt_around_it(
    ask, memory, user
):
    memory.add("You must return the actual complete content as the final answer", user_id=user)
    memory.add(FACT, user_id=user)
    assert FACT in await ask(QUESTION, {"user_id": user, "k": 1})


async def test_an_agent_without_a_crew(memory, sidecar, user):
    memory.add(FACT, user_id=user)
    llm = InferScaleLLM({"user_id": user}, base_url=sidecar.url)
    agent = Agent(role="helper", goal="help", backstory="Be brief.", llm=llm)
    assert FACT in (await asyncio.to_thread(agent.kickoff, QUESTION)).raw
    assert FACT in (await agent.kickoff_async(QUESTION)).raw


async def test_a_handle(ask, memory, user):
    memory.add(FACT, user_id=user)
    handle = memory.recall(QUESTION, user_id=user)
    assert FACT in await ask(QUESTION, handle.id)


async def test_calls_of_no_agent_carry_memory_only_if_asked_to(memory, sidecar, user):
    memory.add(FACT, user_id=user)
    for everywhere in (False, True):
        llm = InferScaleLLM({"user_id": user}, base_url=sidecar.url, everywhere=everywhere)
        assert (FACT in llm.call(QUESTION)) == everywhere
        assert (FACT in await llm.acall([{"role": "user", "content": QUESTION}])) == everywhere


async def test_the_prompt_and_the_model_hold_no_memory(memory, sidecar, user):
    memory.add("I keep goats in Bergen", user_id=user)
    llm = InferScaleLLM({"user_id": user}, base_url=sidecar.url)
    agent = Agent(role="helper", goal="help", backstory="Be brief.", llm=llm)
    result = await agent.kickoff_async(QUESTION)
    assert "Bergen" in result.raw
    mine = [m for m in result.messages if m["role"] != "assistant"]
    assert mine
    assert "Bergen" not in json.dumps(mine)
    assert user not in llm.model_dump_json()


async def test_what_a_request_names_itself_wins(ask, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    extra = {"extra_body": {"memory": None, "top_k": 5}}
    llm = InferScaleLLM(
        {"user_id": user}, base_url=sidecar.url, temperature=0.5, additional_params=extra
    )
    assert FACT not in await ask(QUESTION, {"user_id": user}, llm=llm)
    (body,) = sidecar.sent()
    assert (body["top_k"], body["temperature"], body["model"]) == (5, 0.5, "")


@pytest.mark.parametrize(("remember", "count"), [("user", 1), ("turn", 2), ("nothing", 0)])
async def test_what_is_remembered(ask, memory, user, remember, count):
    await ask("I keep bees", {"user_id": user}, remember={"remember": remember})
    texts = kept(memory, user)
    assert len(texts) == count
    assert [t.startswith("I was told") for t in texts] == [False, True][:count]


async def test_a_failed_write_is_logged_or_raised(ask, user, caplog):
    with Memory("http://127.0.0.1:9", max_retries=0) as nowhere:
        options = {"client": nowhere, "remember": "user"}
        with caplog.at_level(logging.ERROR):
            assert "one short" in await ask("hello", {"user_id": user}, remember=options)
        assert "not remembered" in caplog.text
        with pytest.raises(APIError):
            strict = {**options, "raise_write_errors": True}
            await ask("hello", {"user_id": user}, remember=strict)


@pytest.mark.parametrize("named", ["alice", {"k": 3}, 3])
def test_a_model_needs_a_scope_or_a_handle(named):
    with pytest.raises(InvalidArgumentError):
        InferScaleLLM(named)


@pytest.mark.parametrize("options", [{}, {"remember": "all"}])
def test_the_callback_needs_a_scope(memory, options):
    named = {"user_id": "alice"} if options else {"handle": "mh_1"}
    with pytest.raises(InvalidArgumentError):
        RememberTask(named, client=memory, **options)


async def test_a_crew_for_each_of_many_inputs(memory, sidecar, user):
    memory.add(FACT, user_id=user)
    llm = InferScaleLLM({"user_id": user}, base_url=sidecar.url)
    agent = Agent(role="helper", goal="help", backstory="Be brief.", llm=llm)
    task = Task(description="{asked}", expected_output="an answer", agent=agent)
    crew = Crew(agents=[agent], tasks=[task])
    inputs = [{"asked": QUESTION}, {"asked": "Where are the bees?"}]
    outputs = await asyncio.to_thread(crew.kickoff_for_each, inputs)
    outputs += await crew.kickoff_for_each_async(inputs)
    outputs += await crew.akickoff_for_each(inputs)
    assert [FACT in output.raw for output in outputs] == [True] * 6


async def test_another_tenants_user_of_that_name_sees_nothing(ask, keyed, user):
    with Memory(keyed.url, api_key=keyed.mine) as mine:
        mine.add(FACT, user_id=user)
    for key, sees in ((keyed.mine, True), (keyed.other, False)):
        llm = InferScaleLLM({"user_id": user}, base_url=keyed.url, api_key=key)
        assert (FACT in await ask(QUESTION, {"user_id": user}, llm=llm)) == sees
