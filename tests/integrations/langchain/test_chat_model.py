"""`ChatInferScale`: where it goes, with which key, with whose memory, and what it tells after."""

import json
import uuid
from typing import Any

import pytest

pytest.importorskip(
    "langchain_openai", reason="LangChain is not installed: integrations/run_tests.sh"
)

import openai
from langchain_core.caches import InMemoryCache
from langchain_core.tracers import BaseTracer

from inferscale import Memory
from inferscale_langchain import ChatInferScale

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


@pytest.fixture
def known(memory: Memory, user: str) -> str:
    memory.add(FACT, user_id=user)
    return user


@pytest.fixture
def model(sidecar: Any, known: str) -> ChatInferScale:
    return ChatInferScale(base_url=sidecar.url, memory={"user_id": known, "k": 3})


async def answers(model: ChatInferScale, **more: Any) -> list[str]:
    """The answer in all four modes."""
    return [
        str(model.invoke(QUESTION, **more).content),
        str((await model.ainvoke(QUESTION, **more)).content),
        "".join(str(chunk.content) for chunk in model.stream(QUESTION, **more)),
        "".join([str(chunk.content) async for chunk in model.astream(QUESTION, **more)]),
    ]


async def test_memory_of_the_constructor_in_all_modes(model):
    assert [FACT in answer for answer in await answers(model)] == [True] * 4


async def test_a_handle_and_no_memory(model, memory, known):
    handle = memory.recall(QUESTION, user_id=known)
    bare = model.with_memory(None)
    assert not any(FACT in answer for answer in await answers(bare))
    assert all(FACT in answer for answer in await answers(bare.with_memory(handle)))
    assert FACT in model.invoke(QUESTION).content, "the original was changed by its copies"


async def test_extra_body_of_a_call_is_merged(model, sidecar):
    assert all(FACT in answer for answer in await answers(model, extra_body={"top_k": 4}))
    assert [body["top_k"] for body in sidecar.sent()] == [4] * 4


def test_bound_tools_keep_the_memory(model):
    bound = model.bind_tools([{"name": "f", "description": "d", "parameters": {"type": "object"}}])
    assert FACT in bound.invoke(QUESTION).content


def test_the_report_is_in_the_metadata_without_memory_text(model):
    metadata = model.invoke(QUESTION).response_metadata
    assert metadata["memory"]["items"] == 1
    assert metadata["memory"]["mode"] == "text"
    assert "Maya" not in json.dumps(metadata, default=str)


def test_usage_is_known_when_streaming(model):
    chunks = list(model.stream(QUESTION))
    assert sum((c.usage_metadata or {}).get("total_tokens", 0) for c in chunks) == 10


def test_a_cached_answer_never_reaches_another_user(sidecar, model, known):
    cache = InMemoryCache()
    models = [
        ChatInferScale(base_url=sidecar.url, memory={"user_id": who}, cache=cache)
        for who in (known, f"{known}-other")
    ]
    assert [FACT in m.invoke(QUESTION).content for m in models] == [True, False]
    other = models[0].with_memory({"user_id": f"{known}-other"})
    assert FACT not in other.invoke(QUESTION).content
    assert FACT in models[0].invoke(QUESTION).content
    assert len(sidecar.sent()) == 2, "equal calls were to be answered from the cache"


class Recorder(BaseTracer):
    """Keeps what LangChain would send to a tracing service when a run starts."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def _persist_run(self, run: Any) -> None:
        self.seen.append(repr({"inputs": run.inputs, "extra": run.extra, "made": run.serialized}))


def test_traces_hold_no_memory_text(model, memory, known):
    tracer = Recorder()
    handle = memory.recall(QUESTION, user_id=known)
    model.with_memory(handle).invoke(QUESTION, config={"callbacks": [tracer]})
    assert tracer.seen
    assert "bees" not in "".join(tracer.seen)


def test_another_services_key_is_never_sent(monkeypatch, sidecar):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.test")
    model = ChatInferScale(base_url=sidecar.url)
    assert model.invoke("hi").content  # the sidecar refuses a key that it does not know
    assert "sk-secret" not in str(model.root_client.api_key)


def test_an_unknown_handle_is_an_error(sidecar):
    model = ChatInferScale(base_url=sidecar.url, memory=f"mh_{uuid.uuid4().hex}")
    with pytest.raises(openai.NotFoundError, match="no such handle") as caught:
        model.invoke(QUESTION)
    assert caught.value.status_code == 404


@pytest.mark.parametrize(
    "arguments",
    [{"memory": "alice"}, {"memory": {"k": 3}}, {"api_key": lambda: "k"}, {"openai_proxy": "x"}],
)
def test_arguments_that_make_no_sense(arguments):
    with pytest.raises(ValueError, match=r"memory|api_key|openai_proxy"):
        ChatInferScale(**arguments)
