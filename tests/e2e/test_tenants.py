"""Two tenants with equal texts, equal user names and each other's ids never see each other."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from inferscale import AuthenticationError, Memory, MemoryHandle, NotFoundError

from .process import SidecarProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

USER = "alice"  # the same name on both sides, on purpose
SHARED = [f"Alice keeps album {n} in the attic box with the blue lid." for n in range(16)]
SHORT: dict[str, Any] = {"temperature": 0, "max_tokens": 4}
KvKeys = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def ids(memory: Memory, other: Memory) -> dict[str, list[str]]:
    """Memory ids by tenant, KV built: the same texts, and one that only the first tenant has."""
    found: dict[str, list[str]] = {}
    for name, client, texts in (
        ("acme", memory, [*SHARED, "Alice hides the acme ledger in the piano."]),
        ("globex", other, SHARED),
    ):
        messages = [{"role": "user", "content": text} for text in texts]
        found[name] = [r.id for r in client.add(messages, user_id=USER, infer=False).results]
    for client in (memory, other):
        assert client.wait_until_ready(120, builds=True).failed == 0
    return found


@pytest.fixture(scope="module")
def handle(memory: Memory, ids: dict[str, list[str]]) -> MemoryHandle:
    return memory.recall("Where is the ledger?", user_id=USER, k=17)


def test_a_key_is_needed_and_must_be_known(sidecar: SidecarProcess) -> None:
    for key in (None, "isk_nonsense"):
        with Memory(sidecar.url, api_key=key) as nobody, pytest.raises(AuthenticationError):
            nobody.get_all(user_id=USER)


def test_equal_texts_have_nothing_in_common(
    memory: Memory, other: Memory, ids: dict[str, list[str]], kv_keys: KvKeys
) -> None:
    assert not set(ids["acme"]) & set(ids["globex"])
    theirs, ours = ({k for i in ids[t] for k in kv_keys(i)} for t in ("globex", "acme"))
    assert len(theirs) == 16 and len(ours) == 17 and not theirs & ours
    assert {m.id for m in other.get_all(user_id=USER).results} == set(ids["globex"])
    assert {m.id for m in memory.get_all(user_id=USER).results} == set(ids["acme"])
    found = other.search("Where is the acme ledger?", user_id=USER, limit=50).results
    assert {hit.id for hit in found} == set(ids["globex"])


def test_a_foreign_handle_is_unknown(other: Memory, handle: MemoryHandle) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: other.get_handle(handle.id),
        lambda: other.chat("Where is the ledger?", memory=handle, **SHORT),
        lambda: other.chat("Where?", memory=handle.id, stream=True, **SHORT),
    ]
    messages = set()
    for call in calls:
        with pytest.raises(NotFoundError) as caught:
            call()
        messages.add(caught.value.message.replace(handle.id, "…"))
    with pytest.raises(NotFoundError) as unknown:
        other.get_handle("mh_" + "0" * 32)
    messages.add(unknown.value.message.replace("mh_" + "0" * 32, "…"))
    assert len(messages) == 1, "foreign and unknown must read the same"


def test_a_foreign_memory_id_is_unknown(
    memory: Memory, other: Memory, ids: dict[str, list[str]]
) -> None:
    foreign = ids["acme"][-1]
    assert other.get(foreign) is None
    assert other.history(foreign) == [] != memory.history(foreign)
    for call in (other.delete, lambda i: other.update(i, "Mine now.")):
        with pytest.raises(NotFoundError):
            call(foreign)
    kept = memory.get(foreign)
    assert kept is not None and "ledger" in kept.memory and kept.version == 1


def test_a_foreign_report_is_unknown(memory: Memory, other: Memory, handle: MemoryHandle) -> None:
    answer = memory.chat("Where?", memory=handle, **SHORT)
    assert answer.memory is not None
    name = answer.memory.request_id
    assert memory.report(name).items == 17
    with pytest.raises(NotFoundError):
        other.report(name)


def test_neither_prefix_cache_nor_kv_crosses(
    memory: Memory, other: Memory, ids: dict[str, list[str]]
) -> None:
    """The same composition of the same texts, served to one tenant first."""
    field = {"user_id": USER, "query": "album", "k": 16, "filters": None}
    if (extra := memory.get(ids["acme"][-1])) is not None:
        memory.delete(extra.id)  # from here on, both have the same texts
        memory.wait_until_ready(60, builds=True)
    first = [memory.chat("Which album?", memory=field, **SHORT) for _ in range(2)]
    theirs = other.chat("Which album?", memory=field, **SHORT)
    assert first[0].usage and first[1].memory and first[1].memory.tokens
    assert theirs.usage and theirs.memory and theirs.memory.tokens
    assert theirs.usage.prompt_tokens == first[0].usage.prompt_tokens
    assert first[1].memory.tokens.native > 0, "the tenant itself must hit its cache"
    assert theirs.memory.tokens.native == 0, "another tenant must not"
    assert theirs.memory.mode == "injected", "with KV of its own"


def test_plain_requests_share_no_prefix_across_tenants(
    sidecar: SidecarProcess, keys: dict[str, str]
) -> None:
    text = "Here is a report about the harbour at dawn. " * 40
    body = {"model": sidecar.model, "messages": [{"role": "user", "content": text}], **SHORT}

    def cached(tenant: str, **more: Any) -> int:
        headers = {"authorization": f"Bearer {keys[tenant]}"}
        url = f"{sidecar.url}/v1/chat/completions"
        answer = httpx.post(url, json={**body, **more}, headers=headers, timeout=60).json()
        return int((answer["usage"]["prompt_tokens_details"] or {}).get("cached_tokens") or 0)

    assert cached("acme") == 0
    assert cached("acme") >= 256
    assert cached("globex") == 0
    assert cached("globex") >= 256
    assert cached("globex", cache_salt="its own") == 0, "a client's own salt still separates"


def test_deleting_on_one_side_leaves_the_other_alone(
    memory: Memory, other: Memory, ids: dict[str, list[str]]
) -> None:
    assert other.delete_all(user_id=USER).deleted == 16
    field = {"user_id": USER, "query": "album", "k": 16}
    nothing = other.chat("Which album?", memory=field, **SHORT)
    assert nothing.memory is not None
    assert (nothing.memory.mode, nothing.memory.items) == ("none", 0)
    mine = memory.chat("Which album, again?", memory=field, **SHORT)
    assert mine.memory is not None and mine.memory.mode == "injected"
