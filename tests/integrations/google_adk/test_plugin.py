"""Apps of ADK with memory, against the real application, in all modes."""

import asyncio
import json
import logging
from typing import Any

import pytest

pytest.importorskip("google.adk", reason="ADK is not installed: integrations/run_tests.sh")

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import LongRunningFunctionTool
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from inferscale import InvalidArgumentError, Memory
from inferscale_adk import InferScaleLlm, InferScalePlugin

# LiteLLM's types, of which pydantic says so while it reads streams.
pytestmark = pytest.mark.filterwarnings("ignore:Item '.*' on TypedDict:UserWarning")

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


def bees(count: int) -> str:
    """Counts bees."""
    return f"{count} bees"


def kept(memory: Memory, user: str) -> list[tuple[str, str | None]]:
    found = memory.get_all(user_id=user).results
    return sorted((record.memory, record.app_id) for record in found)


async def test_the_second_session_knows_what_the_first_one_said(app_of, ask, way, user):
    runner = app_of()
    assert FACT not in await ask(runner, FACT, user, session="s1", way=way)
    assert FACT in await ask(runner, QUESTION, user, session="s2", way=way)


async def test_users_of_one_app_at_once_never_mix(app_of, ask, way, memory, user):
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}", app_id="app")
    runner = app_of()
    asked = [ask(runner, "which number is my sister", f"{user}-{n}", way=way) for n in range(4)]
    answers = await asyncio.gather(*asked)
    assert [answer.count("number") for answer in answers] == [1] * 4
    assert all(f"number {n}" in answer for n, answer in enumerate(answers))


async def test_every_call_of_a_turn_with_tools_carries_the_same_memory(
    app_of, ask, way, memory, sidecar, user
):
    memory.add(FACT, user_id=user, app_id="app")
    runner = app_of(plugin={"memory": {"k": 3}}, tools=[bees])
    assert FACT in await ask(runner, 'call bees {"count": 3}', user, way=way)
    first, second = sidecar.sent()
    assert FACT in json.dumps(first["messages"][0])
    assert first["messages"][0] == second["messages"][0]
    assert "3 bees" in str(second["messages"][-1]["content"])


@pytest.mark.parametrize("across", [False, True])
async def test_an_apps_memories_are_its_own_unless_they_are_shared(
    app_of, ask, memory, user, across
):
    await ask(app_of("app", plugin={"across_apps": across}), FACT, user)
    assert kept(memory, user) == [(FACT, None if across else "app")]
    other = app_of("other", plugin={"across_apps": across})
    assert (FACT in await ask(other, QUESTION, user)) == across


async def test_a_run_may_name_a_handle(app_of, ask, memory, user):
    memory.add(FACT, user_id=f"{user}-other")
    handle = memory.recall(QUESTION, user_id=f"{user}-other")
    body = {"memory": {"handle": handle.id}}
    config = RunConfig(http_options=types.HttpOptions(extra_body=body))
    assert FACT in await ask(app_of(), QUESTION, user, config=config)
    assert config.http_options.extra_body == body


async def test_fields_of_model_agent_and_plugin_come_together(app_of, ask, memory, sidecar, user):
    model = InferScaleLlm(base_url=sidecar.url, temperature=0.5, extra_body={"top_k": 5})
    options = types.HttpOptions(extra_body={"min_p": 0.1})
    config = types.GenerateContentConfig(http_options=options)
    await ask(app_of(model=model, generate_content_config=config), FACT, user)
    assert FACT in await ask(app_of(model=model, generate_content_config=config), QUESTION, user)
    for body in sidecar.sent():
        assert (body["top_k"], body["min_p"], body["temperature"]) == (5, 0.1, 0.5)
    assert options.extra_body == {"min_p": 0.1}


async def test_a_run_may_go_without_memory(app_of, ask, memory, user):
    memory.add(FACT, user_id=user, app_id="app")
    config = RunConfig(http_options=types.HttpOptions(extra_body={"memory": None}))
    assert FACT not in await ask(app_of(), QUESTION, user, config=config)


async def test_no_memory_text_gets_into_events_or_state(app_of, ask, way, memory, user, tmp_path):
    memory.add("I keep goats in Bergen", user_id=user, app_id="app")
    runner = app_of(tools=[bees])
    runner.session_service = SqliteSessionService(str(tmp_path / "sessions.db"))
    assert "Bergen" in await ask(runner, 'call bees {"count": 3}', user, way=way)
    session = await runner.session_service.get_session(
        app_name="app", user_id=user, session_id="s1"
    )
    events = [event.model_dump_json() for event in session.events]
    assert len(events) == 4
    assert ["Bergen" in event for event in events] == [False, False, False, True]
    assert "Bergen" not in json.dumps(session.state)


@pytest.mark.parametrize(("remember", "count"), [("user", 1), ("turn", 2), ("nothing", 0)])
async def test_what_is_remembered(app_of, ask, memory, user, remember, count):
    text = 'call bees {"count": 3}'
    await ask(app_of(plugin={"remember": remember}, tools=[bees]), text, user)
    texts = [text for text, _ in kept(memory, user)]
    assert len(texts) == count
    assert text in texts or not count
    assert sum(t.startswith("I was told") for t in texts) == (count == 2)


async def test_a_turn_remembers_its_own_words_alone(app_of, ask, memory, user):
    runner = app_of()
    await ask(runner, "I keep bees", user)
    memory.delete_all(user_id=user)
    await ask(runner, "I keep goats", user)
    await ask(runner, "I keep bees", user)
    assert [text for text, _ in kept(memory, user)] == ["I keep bees", "I keep goats"]


async def test_what_an_agent_asks_its_tool_is_not_remembered(app_of, ask, memory, sidecar, user):
    memory.add(FACT, user_id=user, app_id="app")
    model = InferScaleLlm(base_url=sidecar.url)
    inner = LlmAgent(name="keeper", model=model, instruction="Keep bees.")
    runner = app_of(tools=[AgentTool(agent=inner)])
    text = f"call keeper {json.dumps({'request': QUESTION})}"
    await ask(runner, text, user)
    assert [FACT in json.dumps(body["messages"][0]) for body in sidecar.sent()] == [True] * 3
    assert [text for text, _ in kept(memory, user)] == sorted([FACT, text])
    await ask(runner, "I keep goats", user)
    assert "I keep goats" in [text for text, _ in kept(memory, user)]


async def test_a_run_that_goes_on_after_a_long_tool_has_the_memory_too(
    app_of, ask, memory, sidecar, user
):
    memory.add(FACT, user_id=user, app_id="app")
    runner = app_of(tools=[LongRunningFunctionTool(bees)])
    text = 'call bees {"count": 3}'
    await ask(runner, text, user)
    sidecar.sent()
    result = types.FunctionResponse(id="call_1", name="bees", response={"result": "4 bees"})
    assert FACT in await ask(runner, [types.Part(function_response=result)], user)
    assert "4 bees" in json.dumps(sidecar.sent()[-1]["messages"])
    assert [text for text, _ in kept(memory, user)] == sorted([FACT, text])


async def test_a_failed_run_is_not_remembered(app_of, ask, memory, sidecar, user):
    runner = app_of(model=InferScaleLlm("none-such", base_url=sidecar.url))
    with pytest.raises(Exception, match="no such model"):
        await ask(runner, "I keep wasps", user)
    assert kept(memory, user) == []


async def test_a_failed_write_is_logged_or_raised(app_of, ask, user, caplog):
    with Memory("http://127.0.0.1:9", max_retries=0) as nowhere:
        with caplog.at_level(logging.ERROR):
            assert "Be brief" in await ask(app_of(plugin={"client": nowhere}), "hello", user)
        assert "not remembered" in caplog.text
        strict = app_of(plugin={"client": nowhere, "raise_write_errors": True})
        with pytest.raises(Exception, match="Connection refused"):
            await ask(strict, "hello", user)


async def test_a_message_without_text_goes_without_memory(app_of, ask, memory, user):
    memory.add(FACT, user_id=user, app_id="app")
    picture = types.Part(inline_data=types.Blob(data=b"png", mime_type="image/png"))
    assert FACT not in await ask(app_of(), [picture], user)


async def test_another_tenants_user_of_that_name_sees_nothing(app_of, ask, keyed, user):
    with Memory(keyed.url, api_key=keyed.mine) as mine:
        mine.add(FACT, user_id=user, app_id="app")
    for key, sees in ((keyed.mine, True), (keyed.other, False)):
        model = InferScaleLlm(base_url=keyed.url, api_key=key)
        runner = app_of(model=model, plugin={"remember": "nothing"})
        assert (FACT in await ask(runner, QUESTION, user)) == sees


class Elsewhere(BaseLlm):
    """A model that is not the sidecar's; it says what it was sent."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        text = f"I got: {llm_request.config.http_options}"
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


async def test_other_models_are_asked_without_memory(app_of, ask, memory, user, caplog):
    memory.add(FACT, user_id=user, app_id="app")
    runner = app_of(model=Elsewhere(model="elsewhere/one"))
    with caplog.at_level(logging.WARNING, logger="inferscale_adk"):
        assert user not in await ask(runner, "one", user)
        await ask(runner, "two", user)
    assert caplog.text.count("elsewhere/one is not the sidecar's") == 1


@pytest.mark.parametrize("options", [{"memory": {"kk": 3}}, {"remember": "all"}, {"client": 3}])
def test_bad_arguments_are_refused(memory, options):
    with pytest.raises(InvalidArgumentError):
        InferScalePlugin(**{"client": memory, **options})
