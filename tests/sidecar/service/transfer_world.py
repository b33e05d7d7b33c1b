"""Worlds to export from and import into, and what a memory service may hold, for hypothesis."""

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from tests.sidecar.databases import Backend

from inferscale.protocol.memory import Message
from inferscale.protocol.transfer import ImportResponse
from inferscale_sidecar.core import Memory, Scope, Tenant
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.service.transfer import TransferService
from inferscale_sidecar.service.transfer_file import ExportFile
from inferscale_sidecar.service.transfer_import import ImportOptions
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.block_port import BlockDraft
from inferscale_sidecar.store.document_port import DocumentDraft, Owner
from inferscale_sidecar.store.records import Draft, FactDraft, Target
from inferscale_sidecar.store.thread_port import MessageDraft

from .fakes import HashEmbedder

SCOPES = (
    Scope("alice"),
    Scope("bob"),
    Scope("alice", "guide"),
    Scope(agent_id="guide"),
    Scope(run_id="r1"),
    Scope("alice", app_id="mail"),
    Scope(app_id="mail"),
)
TEXTS = ("likes tea", "lives in Lyon", "has 2 dogs", "喜欢茶", "🎈 party", 'says "quoted"\nthings')


@dataclass
class Place:
    """One database with its default tenant."""

    store: SqlStore
    tenant: Tenant
    memory: MemoryService
    transfer: TransferService
    embedder: HashEmbedder

    async def export(self, scope: Scope | None = None, *, vectors: bool = False) -> bytes:
        lines = self.transfer.export(self.tenant, scope, with_vectors=vectors)
        return b"".join([chunk async for chunk in lines])

    async def take(self, content: bytes, **options: Any) -> ImportResponse:
        source = ExportFile(io.BytesIO(content))
        return await self.transfer.import_from(self.tenant, source, ImportOptions(**options))

    async def all(self, *scopes: Scope) -> list[Memory]:
        pages = [await self.memory.list(self.tenant, s, limit=1000) for s in scopes or SCOPES[:1]]
        return [memory for page in pages for memory in page.memories]

    def at(self, tenant: Tenant) -> "Place":
        """The same database for another tenant."""
        return Place(self.store, tenant, self.memory, self.transfer, self.embedder)


@asynccontextmanager
async def opened(backend: Backend) -> AsyncIterator[Place]:
    """A fresh database; checked for integrity at the end."""
    url = backend.create(with_tables=True)
    store = SqlStore(url)
    await store.start()
    embedder, metrics = HashEmbedder(), Metrics("test")
    await store.bind_embedder(embedder.name, embedder.dim)
    searcher = Searcher(store, embedder, metrics, create_index=FlatIndex)
    memory = MemoryService(store, embedder, searcher, metrics)
    tenant = await store.get_tenant("default")
    assert tenant is not None
    try:
        yield Place(store, tenant, memory, TransferService(store, embedder), embedder)
        assert await store.check_integrity() == []
    finally:
        await store.close()
        backend.drop(url)


metadata = st.one_of(
    st.none(),
    st.dictionaries(
        st.text("abcé", min_size=1, max_size=3),
        st.one_of(
            st.none(), st.booleans(), st.integers(-5, 5), st.text(max_size=3), st.lists(st.none())
        ),
        max_size=2,
    ).filter(lambda found: all("\x00" not in str(v) for v in found.values())),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ("add", "add", "update", "delete", "extract", "block", "say", "say", "put", "drop")
        ),
        st.integers(0, 50),
        st.sampled_from(SCOPES),
        st.sampled_from(TEXTS),
        metadata,
    ),
    max_size=14,
)
Step = tuple[str, int, Scope, str, dict[str, Any] | None]


async def play(place: Place, script: Sequence[Step]) -> None:
    """Do what a script says; what is not possible is left out."""
    for action, pick, scope, text, fields in script:
        there = await place.all(scope)
        if action == "add":
            message = Message(role="user", content=text, name="Ann")
            await place.memory.add(place.tenant, scope, message, metadata=fields, infer=False)
        elif action == "block":
            await pin(place, scope, f"label{pick % 3}", text)
        elif action == "say":
            user, app = scope.user_id or "alice", scope.app_id
            await say(place, user, f"t{pick % 2}", text, app_id=app, metadata=fields or None)
        elif action in ("put", "drop"):
            value = {"text": text, "more": fields} if action == "put" else None
            await put(place, scope.user_id, f"key{pick % 3}", value)
        elif action == "extract":
            await extract(place, scope, text, there[:1])
        elif there and action == "delete":
            await place.memory.delete(place.tenant, there[pick % len(there)].id)
        elif there and text not in {memory.text for memory in there}:
            chosen = there[pick % len(there)].id
            await place.memory.update(place.tenant, chosen, text=f"{text} {pick}", metadata=fields)
        await asyncio.sleep(0)


async def pin(place: Place, scope: Scope, label: str, value: str) -> None:
    """A block, or another value for the one that the scope has under this label."""
    blocks = await place.store.list_blocks(place.tenant.id, scope, label=label, limit=10)
    for block in blocks.blocks:
        await place.store.edit_block(
            place.tenant.id, block.id, lambda old: replace(old, value=value, version=old.version)
        )
    if not blocks.blocks:
        await place.store.create_block(place.tenant.id, BlockDraft(label, value, 100), scope)


async def extract(place: Place, scope: Scope, text: str, replaced: Sequence[Memory]) -> None:
    """A message with a fact that comes from it and makes others untrue."""
    said, fact = [f"I said: {text}", f"fact: {text}"]
    vectors = await place.embedder.embed([said, fact])
    job = await place.store.open_extraction(
        place.tenant.id, scope, [Draft(said, vectors[0], "user")]
    )
    targets = tuple(Target(memory.id, memory.version) for memory in replaced)
    found = FactDraft(Draft(fact, vectors[1], "user"), (0,), supersedes=targets)
    await place.store.finish_extraction(place.tenant.id, job.id, [found])


async def say(
    place: Place, user_id: str, thread: str, text: str, *, app_id: str | None = None, **fields: Any
) -> None:
    """A message in a thread of the user, which is made if need be."""
    thread_id = f"{thread}-{user_id}{app_id or ''}"
    scope = Scope(user_id, app_id=app_id)
    await place.store.create_thread(place.tenant.id, thread_id, scope, {"made": "here"})
    drafts = [MessageDraft("user", text, "Ann", **fields)]
    assert await place.store.add_messages(place.tenant.id, thread_id, drafts)


async def put(place: Place, user_id: str | None, key: str, value: dict[str, Any] | None) -> None:
    """A document that is found by its text, or, with None, none."""
    draft = None
    if value is not None:
        (vector,) = await place.embedder.embed([value["text"]])
        draft = DocumentDraft(value, [vector], index=["text"])
    path = (("notes", "ä"), key)
    await place.store.write_documents(Owner(place.tenant.id, user_id), {path: draft})
