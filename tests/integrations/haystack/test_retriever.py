"""Memories as documents, against the real application."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("haystack", reason="haystack-ai is not installed: integrations/run_tests.sh")

from haystack import Document, Pipeline
from haystack.components.builders import PromptBuilder

from inferscale import InvalidArgumentError, Memory
from inferscale_haystack import InferScaleRetriever

FACT = "My sister Maya keeps bees in Oslo"


@pytest.fixture
async def make(sidecar: Any) -> AsyncIterator[Any]:
    """`make(…)` is a retriever with these arguments."""
    made = []

    def retriever(**options: Any) -> InferScaleRetriever:
        made.append(InferScaleRetriever(api_base_url=sidecar.url, **options))
        return made[-1]

    yield retriever
    for one in made:
        one.close()
        await one.close_async()


@pytest.fixture(params=["run", "run_async"])
def find(request: pytest.FixtureRequest) -> Any:
    """`find(retriever, query, …)` gives the documents, blocking or awaiting."""

    async def run(retriever: InferScaleRetriever, query: str, **more: Any) -> list[Document]:
        if request.param == "run":
            return (await asyncio.to_thread(retriever.run, query, **more))["documents"]
        return (await retriever.run_async(query, **more))["documents"]

    return run


@pytest.fixture
def known(memory: Memory, user: str) -> str:
    memory.add(FACT, user_id=user, metadata={"topic": "family"})
    memory.add("It rains", user_id=user)
    return user


async def test_memories_are_documents(find, make, memory, known):
    best, _ = await find(make(user_id=known), "my sister Maya")
    record = next(r for r in memory.get_all(user_id=known).results if r.memory == FACT)
    assert (best.id, best.content) == (record.id, FACT)
    assert best.meta["metadata"] == {"topic": "family"}
    assert best.meta["user_id"] == known
    assert best.score > 0.1


async def test_what_the_run_says_wins(find, make, known):
    retriever = make(user_id=f"{known}-other")
    assert await find(retriever, "sister") == []
    assert len(await find(retriever, "sister", user_id=known)) == 2
    (one,) = await find(retriever, "sister", user_id=known, top_k=1)
    (family,) = await find(retriever, "rain", user_id=known, filters={"topic": "family"})
    assert one.content == family.content == FACT
    assert await find(make(user_id=known, threshold=0.999), "sister") == []


async def test_somebody_must_be_named(find, make):
    with pytest.raises(InvalidArgumentError, match="user_id"):
        await find(make(), "sister")


def test_in_a_pipeline_that_was_serialized(make, known):
    pipeline = Pipeline()
    pipeline.add_component("memory", make(user_id=known, top_k=1))
    prompt = PromptBuilder(
        "{% for d in documents %}{{d.content}}{% endfor %}", required_variables=["documents"]
    )
    pipeline.add_component("prompt", prompt)
    pipeline.connect("memory.documents", "prompt.documents")
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["inferscale_haystack.*"])
    found = loaded.run({"memory": {"query": "my sister Maya"}})
    loaded.get_component("memory").close()
    assert found["prompt"]["prompt"] == FACT
