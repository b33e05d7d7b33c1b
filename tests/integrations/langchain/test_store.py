"""`InferScaleStore` against LangGraph's own in-memory store, and what that one has not: TTLs."""

import random
import uuid
from datetime import timedelta
from typing import Any

import httpx
import pytest

pytest.importorskip("langgraph", reason="LangGraph is not installed: integrations/run_tests.sh")

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from inferscale import AsyncMemory, InvalidArgumentError, InvalidRequestError, Memory
from inferscale_langchain import InferScaleStore

LABELS = ["a", "b", "B", "a%", "_", "é", "*", "users"]
KEYS = [*(f"k{n}" for n in range(6)), "ключ", "a.b", "with space", ""]
ALL = 10_000
MINUTE = 1 / (24 * 60)


@pytest.fixture
def store(memory: Memory, user: str) -> InferScaleStore:
    return InferScaleStore(memory, user_id=user)


class Model:
    """LangGraph's store with what it leaves open made definite: the last written comes first, and
    namespaces without documents do not exist."""

    def __init__(self) -> None:
        self.store = InMemoryStore()
        self.order: dict[tuple[tuple[str, ...], str], int] = {}
        self.writes = 0

    def batch(self, ops: list[Any]) -> list[Any]:
        results = [self._result(op) for op in ops]
        self.store.batch(ops)
        for op in ops:
            if isinstance(op, PutOp):
                self.writes += 1
                self.order[op.namespace, op.key] = self.writes
        return results

    def _result(self, op: Any) -> Any:
        if isinstance(op, GetOp):
            return self.store.batch([op])[0]
        if isinstance(op, SearchOp):
            found = self.store.batch([op._replace(limit=ALL, offset=0)])[0]
            found.sort(key=lambda item: -self.order[item.namespace, item.key])
            return found[op.offset : op.offset + op.limit]
        if isinstance(op, ListNamespacesOp):
            living = InMemoryStore()
            for item in self.store.search((), limit=ALL):
                living.put(item.namespace, item.key, item.value)
            return living.batch([op])[0]
        return None


class Randomly:
    """Operations, values and filters, from a seed."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)

    def namespace(self, least: int = 1) -> tuple[str, ...]:
        return tuple(self.pick.choice(LABELS) for _ in range(self.pick.randint(least, 4)))

    def number(self) -> Any:
        return self.pick.choice([0, 1, 2, -3, 2.5, 1e10, True, False, "7", "-0.5"])

    def scalar(self) -> Any:
        return self.pick.choice([None, True, 1, 1.0, 0, "x", "X", "", "é\u0000", 2**70, 0.1])

    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = {"n": self.number(), "s": self.pick.choice(["x", "y", "z"])}
        if self.pick.random() < 0.7:
            value["m"] = self.scalar()
        if self.pick.random() < 0.5:
            inner = {"x": self.number(), "y": self.scalar()}
            value["inner"] = self.pick.choice([inner, "no object", None])
        if self.pick.random() < 0.5:
            value["tags"] = [self.scalar() for _ in range(self.pick.randint(0, 2))]
        return value

    def condition(self) -> tuple[str, Any]:
        order = self.pick.choice(["$gt", "$gte", "$lt", "$lte"])
        return self.pick.choice(
            [
                ("s", self.pick.choice(["x", "y"])),
                ("m", self.scalar()),
                ("m", {self.pick.choice(["$eq", "$ne"]): self.scalar()}),
                ("n", {order: self.number()}),
                ("n", {"$gte": 0, order: self.number()}),
                ("tags", [self.scalar()]),
                ("tags", []),
                ("inner", {"x": {order: self.number()}}),
                ("inner", {"y": self.scalar()}),
                ("nowhere", {"$ne": 1}),
                ("nowhere", None),
            ]
        )

    def search(self) -> SearchOp:
        conditions = dict(self.condition() for _ in range(self.pick.choice([0, 0, 1, 1, 2])))
        prefix = self.namespace(0)[: self.pick.randint(0, 2)]
        limit, offset = self.pick.choice([0, 1, 3, 10, ALL]), self.pick.choice([0, 0, 1, 5])
        return SearchOp(prefix, conditions or None, limit, offset)

    def listing(self) -> ListNamespacesOp:
        ends = [
            MatchCondition(self.pick.choice(["prefix", "suffix"]), self.namespace()[:2])
            for _ in range(self.pick.choice([0, 1, 1, 2]))
        ]
        depth, limit = self.pick.choice([None, None, 1, 2, 3]), self.pick.choice([0, 2, 100])
        return ListNamespacesOp(tuple(ends) or None, depth, limit, self.pick.choice([0, 0, 3]))

    def operation(self) -> Any:
        kind = self.pick.random()
        if kind < 0.45:
            value = None if self.pick.random() < 0.3 else self.value()
            return PutOp(self.namespace(), self.pick.choice(KEYS), value)
        if kind < 0.65:
            return GetOp(self.namespace(), self.pick.choice(KEYS))
        return self.search() if kind < 0.9 else self.listing()


def shown(result: Any) -> Any:
    """What is compared: times are each store's own."""
    if isinstance(result, list):
        return [shown(each) for each in result]
    if result is None or isinstance(result, tuple):
        return result
    return (result.namespace, result.key, result.value, getattr(result, "score", None))


@pytest.mark.parametrize("seed", range(4))
async def test_a_thousand_operations_as_the_store_of_langgraph(
    sidecar: Any, memory: Memory, user: str, seed: int
) -> None:
    """In batches, blocking and awaiting in turn, on one user's documents: 4,000 in all."""
    randomly, model = Randomly(seed), Model()
    done = found = 0
    async with AsyncMemory(sidecar.url) as async_memory:
        store = InferScaleStore(memory, async_memory=async_memory, user_id=user)
        while done < 1_000:
            ops = [randomly.operation() for _ in range(randomly.pick.choice([1, 1, 2, 5, 20]))]
            ours = store.batch(ops) if randomly.pick.random() < 0.5 else await store.abatch(ops)
            for op, mine, theirs in zip(ops, ours, model.batch(ops), strict=True):
                assert shown(mine) == shown(theirs), op
                found += len(mine) if isinstance(mine, list) else 0
            done += len(ops)
    assert found > 500  # or the operations would not have met


def test_the_methods_of_a_store(store: InferScaleStore) -> None:
    path = ("users", "alice")
    assert store.get(path, "settings") is None
    store.put(path, "settings", {"theme": "dark"})
    first = store.get(path, "settings")
    assert first is not None
    assert (first.value, first.namespace, first.key) == ({"theme": "dark"}, path, "settings")
    store.put(path, "settings", {"theme": "light"})
    second = store.get(path, "settings")
    assert second is not None
    assert second.value == {"theme": "light"}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at
    assert store.list_namespaces(prefix=("users", "*"), max_depth=1) == [("users",)]
    store.delete(path, "settings")
    assert store.get(path, "settings") is None
    assert store.list_namespaces() == []


async def test_the_awaiting_methods(sidecar: Any, user: str) -> None:
    async with AsyncMemory(sidecar.url) as async_memory:
        store = InferScaleStore(async_memory=async_memory, user_id=user)
        await store.aput(("a",), "k", {"n": 1}, ttl=5)
        assert [item.value for item in await store.asearch(("a",))] == [{"n": 1}]
        assert await store.alist_namespaces(suffix=("a",)) == [("a",)]
        await store.adelete(("a",), "k")
        assert await store.aget(("a",), "k") is None
        with pytest.raises(InvalidArgumentError, match="async_memory"):
            store.get(("a",), "k")


async def test_awaiting_with_a_blocking_client_only(store: InferScaleStore) -> None:
    await store.aput(("a",), "k", {"n": 1})
    assert (await store.asearch(("a",)))[0].key == "k"


def test_within_a_batch_reads_come_first_and_the_last_write_counts(store: InferScaleStore) -> None:
    store.put(("a",), "k", {"n": 1})
    batch = [
        PutOp(("a",), "k", {"n": 2}),
        GetOp(("a",), "k"),
        PutOp(("a",), "k", {"n": 3}),
        SearchOp(("a",)),
    ]
    _, got, _, found = store.batch(batch)
    assert got.value == {"n": 1}
    assert [item.value for item in found] == [{"n": 1}]
    assert store.get(("a",), "k").value == {"n": 3}


def test_a_batch_is_written_as_a_whole_or_not_at_all(store: InferScaleStore) -> None:
    bad = SearchOp(("a",), filter={"n": {"$near": 1}})
    with pytest.raises(InvalidRequestError, match="near"):
        store.batch([PutOp(("a",), "k", {"n": 1}), bad])
    with pytest.raises(InvalidArgumentError):
        store.batch([PutOp(("a",), "k", {"n": 1}), PutOp(("a",), "l", {"n": float("nan")})])
    assert store.search(()) == []
    assert store.batch([]) == []


@pytest.mark.parametrize("namespace", [("a.b",), ("",), ("a\x00",), (1,)])
def test_labels_are_checked_also_in_a_batch(store: InferScaleStore, namespace: Any) -> None:
    for op in (GetOp(namespace, "k"), PutOp(namespace, "k", {}), SearchOp(namespace)):
        with pytest.raises(InvalidNamespaceError):
            store.batch([op])


def test_nothing_lies_in_the_empty_namespace(store: InferScaleStore) -> None:
    assert store.batch([GetOp((), "k"), PutOp((), "k", None)]) == [None, None]
    with pytest.raises(InvalidNamespaceError):
        store.batch([PutOp((), "k", {})])
    with pytest.raises(InvalidNamespaceError):
        store.put(("langgraph",), "k", {})


def test_users_do_not_meet(memory: Memory, user: str) -> None:
    mine, other = (InferScaleStore(memory, user_id=f"{user}-{n}") for n in "12")
    shared = InferScaleStore(memory)
    label = f"n{uuid.uuid4().hex}"
    mine.put((label,), "k", {"whose": "mine"})
    for stranger in (other, shared):
        assert stranger.get((label,), "k") is None
        assert stranger.search((label,)) == []
        assert (label,) not in stranger.list_namespaces(limit=ALL)
        stranger.delete((label,), "k")
        stranger.put((label,), "k", {"whose": "theirs"})
    assert mine.get((label,), "k").value == {"whose": "mine"}
    assert memory.documents.delete_all(f"{user}-1") == 1
    assert mine.search(()) == []
    assert other.get((label,), "k").value == {"whose": "theirs"}


class TestTimeToLive:
    """Minutes from the last access, as LangGraph says."""

    def test_it_expires_and_its_namespace_too(self, sidecar: Any, store: InferScaleStore) -> None:
        store.put(("a",), "short", {"n": 1}, ttl=10)
        store.put(("a",), "long", {"n": 2}, ttl=60)
        store.put(("b",), "short", {"n": 3}, ttl=0.5)
        store.put(("c",), "always", {"n": 4}, ttl=None)
        sidecar.advance(days=11 * MINUTE)
        assert store.get(("a",), "short") is None
        assert {item.key for item in store.search(())} == {"long", "always"}
        assert store.list_namespaces() == [("a",), ("c",)]
        sidecar.advance(days=365)
        assert [item.key for item in store.search(())] == ["always"]

    @pytest.mark.parametrize("read", ["get", "search"])
    def test_reading_starts_it_again(self, sidecar: Any, store: InferScaleStore, read: str) -> None:
        store.put(("a",), "k", {"n": 1}, ttl=10)
        for _ in range(3):
            sidecar.advance(days=8 * MINUTE)
            assert store.get(("a",), "k") if read == "get" else store.search(("a",))
        sidecar.advance(days=11 * MINUTE)
        assert store.get(("a",), "k") is None

    @pytest.mark.parametrize("read", ["get", "search"])
    def test_unless_told_not_to(self, sidecar: Any, store: InferScaleStore, read: str) -> None:
        store.put(("a",), "k", {"n": 1}, ttl=10)
        sidecar.advance(days=8 * MINUTE)
        if read == "get":
            assert store.get(("a",), "k", refresh_ttl=False)
        else:
            assert store.search(("a",), refresh_ttl=False)
        sidecar.advance(days=3 * MINUTE)
        assert store.get(("a",), "k") is None

    def test_a_search_refreshes_what_it_returns_only(
        self, sidecar: Any, store: InferScaleStore
    ) -> None:
        store.put(("a",), "old", {"n": 1}, ttl=10)
        store.put(("a",), "new", {"n": 2}, ttl=10)
        sidecar.advance(days=8 * MINUTE)
        assert [item.key for item in store.search(("a",), limit=1)] == ["new"]
        sidecar.advance(days=3 * MINUTE)
        assert [item.key for item in store.search(("a",))] == ["new"]

    def test_writing_starts_it_again_or_ends_it(self, sidecar: Any, store: InferScaleStore) -> None:
        store.put(("a",), "k", {"n": 1}, ttl=10)
        sidecar.advance(days=8 * MINUTE)
        store.put(("a",), "k", {"n": 2}, ttl=10)
        sidecar.advance(days=8 * MINUTE)
        assert store.get(("a",), "k", refresh_ttl=False).value == {"n": 2}
        store.put(("a",), "k", {"n": 3})
        sidecar.advance(days=365)
        assert store.get(("a",), "k").value == {"n": 3}

    def test_the_configuration_of_the_store(self, sidecar: Any, memory: Memory, user: str) -> None:
        ttl: Any = {"default_ttl": 10, "refresh_on_read": False}
        store = InferScaleStore(memory, user_id=user, ttl=ttl)
        assert store.supports_ttl
        store.put(("a",), "default", {"n": 1})
        store.put(("a",), "own", {"n": 2}, ttl=30)
        store.put(("a",), "none", {"n": 3}, ttl=None)
        sidecar.advance(days=8 * MINUTE)
        assert len(store.search(("a",))) == 3
        sidecar.advance(days=3 * MINUTE)
        assert {item.key for item in store.search(("a",))} == {"own", "none"}
        store.put(("a",), "refreshed", {"n": 4})
        sidecar.advance(days=8 * MINUTE)
        assert store.get(("a",), "refreshed", refresh_ttl=True)
        sidecar.advance(days=8 * MINUTE)
        assert store.get(("a",), "refreshed")

    def test_what_expired_is_new_when_it_is_written_again(
        self, sidecar: Any, store: InferScaleStore
    ) -> None:
        store.put(("a",), "k", {"n": 1}, ttl=1)
        first = store.get(("a",), "k").created_at
        sidecar.advance(days=2 * MINUTE)
        store.put(("a",), "k", {"n": 2})
        assert store.get(("a",), "k").created_at - first > timedelta(minutes=1)

    @pytest.mark.parametrize("ttl", [0, -1, float("inf")])
    def test_a_time_that_makes_no_sense(self, store: InferScaleStore, ttl: float) -> None:
        with pytest.raises(InvalidArgumentError, match="ttl_s"):
            store.put(("a",), "k", {}, ttl=ttl)


WORDS = ["cello", "tram", "nurse", "Lisbon", "mushrooms", "cat", "Biscuit", "night"]


class TestMeaning:
    """Search by meaning, with the sidecar's embedder, against LangGraph's search with the same."""

    FIELDS = (
        ["$"],
        ["text"],
        ["text", "notes[*].text"],
        ["notes[0].text", "notes[-1]"],
        ["{text,more.x}"],
    )

    @pytest.mark.parametrize("fields", FIELDS, ids=str)
    def test_the_same_scores_as_langgraphs_store(
        self, sidecar: Any, memory: Memory, user: str, fields: list[str]
    ) -> None:
        def embed(texts: list[str]) -> list[list[float]]:
            return [
                httpx.post(f"{sidecar.url}/test/embed", json=[text]).json()[0] for text in texts
            ]

        pick = random.Random(str(fields))
        theirs = InMemoryStore(index={"dims": 32, "embed": embed, "fields": fields})
        ours = InferScaleStore(memory, user_id=user, index={"fields": fields})  # type: ignore[typeddict-item]
        for n in range(25):
            text = " ".join(pick.choices(WORDS, k=3)) + f" {n}"
            value = {
                "text": text,
                "n": n,
                "notes": [{"text": f"note {n} {w}"} for w in WORDS[: n % 3]],
            }
            index = pick.choice([None, None, None, False, ["text"]])
            for store in (ours, theirs):
                store.put(("docs", str(n % 3)), f"k{n}", value, index)
        for prefix, filter_ in (
            (("docs",), None),
            (("docs", "1"), None),
            (("docs",), {"n": {"$lt": 9}}),
        ):
            query = " ".join(pick.choices(WORDS, k=2))
            limit = pick.choice([3, 10, 100])
            mine = ours.search(prefix, query=query, filter=filter_, limit=limit)
            other = theirs.search(prefix, query=query, filter=filter_, limit=limit)
            assert len(mine) == len(other)
            scores = [
                [s and round(s, 4) for s in (i.score for i in found)] for found in (mine, other)
            ]
            assert scores[0] == pytest.approx(scores[1], abs=2e-4)
            by_key = {
                item.key: item.score for item in theirs.search(prefix, query=query, limit=100)
            }
            for item in mine:
                assert item.score == pytest.approx(by_key[item.key], abs=2e-4)

    def test_pages_follow_each_other(self, memory: Memory, user: str) -> None:
        store = InferScaleStore(memory, user_id=user, index={"fields": ["text"]})  # type: ignore[typeddict-item]
        for n, word in enumerate(WORDS):
            store.put(("a",), word, {"text": word}, False if n % 2 else None)
        whole = [item.key for item in store.search(("a",), query="tram", limit=100)]
        pages = [
            item.key
            for offset in range(0, 9, 3)
            for item in store.search(("a",), query="tram", limit=3, offset=offset)
        ]
        assert pages == whole
        assert sorted(whole) == sorted(WORDS)

    def test_a_new_value_has_a_new_meaning(self, memory: Memory, user: str) -> None:
        store = InferScaleStore(memory, user_id=user, index={"fields": ["text"]})  # type: ignore[typeddict-item]
        store.put(("a",), "k", {"text": "tram"})
        store.put(("a",), "l", {"text": "cello"})
        store.put(("a",), "k", {"text": "night"})
        best = store.search(("a",), query="night")[0]
        assert (best.key, best.score) == ("k", pytest.approx(1, abs=1e-4))
        store.put(("a",), "k", {"text": "night"}, index=False)
        assert {item.key: item.score is None for item in store.search(("a",), query="night")} == {
            "k": True,
            "l": False,
        }

    def test_without_an_index_the_query_has_no_effect(self, store: InferScaleStore) -> None:
        store.put(("a",), "k", {"text": "tram"}, ["text"])
        assert [item.score for item in store.search(("a",), query="night")] == [None]

    @pytest.mark.parametrize("index", [{"dims": 4}, {"embed": str}])
    def test_another_embedder_is_refused(self, memory: Memory, index: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="sidecar embeds"):
            InferScaleStore(memory, index=index)
