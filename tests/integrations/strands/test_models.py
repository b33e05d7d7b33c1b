"""Which models of Strands carry memory, and what they send."""

from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands is not installed: integrations/run_tests.sh")

from pydantic import BaseModel
from strands.models.model import Model
from strands.models.routing import ModelRouter

from inferscale import InvalidArgumentError, Memory
from inferscale_strands import InferScaleModel

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


async def say(agent: Any, text: Any) -> str:
    return str(await agent.invoke_async(text))


async def test_a_model_without_streaming(agent_of, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    model = InferScaleModel(client_args={"base_url": sidecar.url}, stream=False)
    assert FACT in await say(agent_of({"user_id": user}, model=model), QUESTION)
    assert "stream_options" not in sidecar.sent()[0]


async def test_a_message_without_text_goes_without_memory(agent_of, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    picture = {"image": {"format": "png", "source": {"bytes": b"png"}}}
    assert FACT not in await say(agent_of({"user_id": user}), [picture])
    assert memory.get_all(user_id=user).total == 1


async def test_what_the_agent_names_itself_wins(agent_of, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    params = {"extra_body": {"memory": None, "top_k": 5}, "temperature": 0.5}
    model = InferScaleModel(client_args={"base_url": sidecar.url}, params=params)
    assert FACT not in await say(agent_of({"user_id": user}, model=model), QUESTION)
    (body,) = sidecar.sent()
    assert (body["top_k"], body["temperature"]) == (5, 0.5)


class Person(BaseModel):
    """Somebody."""

    name: str


async def test_structured_output(agent_of, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    agent = agent_of({"user_id": user})
    text = 'call Person {"name": "Maya"}'
    result = await agent.invoke_async(text, structured_output_model=Person)
    assert result.structured_output == Person(name="Maya")
    assert all(FACT in body["messages"][0]["content"] for body in sidecar.sent())


async def test_a_routers_choice_gets_the_memory(agent_of, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    args = {"base_url": sidecar.url}
    broken = InferScaleModel(client_args=args, model_id="none-such")
    router = ModelRouter([broken, InferScaleModel(client_args=args)])
    assert FACT in await say(agent_of({"user_id": user}, model=router), QUESTION)


async def test_another_tenants_user_of_that_name_sees_nothing(agent_of, keyed, user):
    with Memory(keyed.url, api_key=keyed.mine) as mine:
        mine.add(FACT, user_id=user)
    for key, sees in ((keyed.mine, True), (keyed.other, False)):
        model = InferScaleModel(client_args={"base_url": keyed.url, "api_key": key})
        agent = agent_of({"user_id": user}, model=model, plugin={"remember": "nothing"})
        assert (FACT in await say(agent, QUESTION)) == sees


class Elsewhere(Model):
    """A model that is not OpenAI's."""

    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *args: Any, **options: Any) -> Any: ...

    def stream(self, *args: Any, **options: Any) -> Any: ...


async def test_a_model_that_cannot_carry_memory_is_refused(agent_of, user):
    with pytest.raises(InvalidArgumentError, match="Elsewhere"):
        await say(agent_of({"user_id": user}, model=Elsewhere()), "hello")
