"""`memory.documents` of both clients: what is sent, and what comes back."""

import inspect

import pytest
from tests.sdk.conftest import NOW

from inferscale import AsyncDocuments, Documents, InvalidArgumentError

ITEM = {"namespace": ["a"], "key": "k", "value": {"n": 1}, "created_at": NOW, "updated_at": NOW}


@pytest.fixture
def documents(connect):
    return type(connect())(connect().target.documents.of_user("alice"))


async def test_each_method_is_a_batch_of_one_for_its_user(sidecar, documents):
    sidecar.reply({"results": [None]})
    await documents.put(("a",), "k", {"n": 1}, index=["n"], ttl_s=5)
    operation = {"op": "put", "namespace": ["a"], "key": "k", "value": {"n": 1}}
    assert sidecar.body == {
        "user_id": "alice",
        "operations": [{**operation, "index": ["n"], "ttl_s": 5.0}],
    }
    await documents.delete(("a",), "k")
    assert sidecar.body["operations"] == [{"op": "delete", "namespace": ["a"], "key": "k"}]
    assert await documents.get(("a",), "k") is None
    assert sidecar.last.url.path == "/v1/store/batch"


async def test_results_are_typed(sidecar, documents):
    sidecar.reply({"results": [ITEM]})
    found = await documents.get(["a"], "k", refresh_ttl=False)
    assert (found.value, found["key"]) == ({"n": 1}, "k")
    assert sidecar.body["operations"][0]["refresh_ttl"] is False
    sidecar.replies.clear()
    sidecar.reply({"results": [[{**ITEM, "score": 0.5, "new_field": 1}]]})
    (hit,) = await documents.search(("a",), query="x", filter={"n": 1}, limit=3, offset=1)
    assert hit.score == 0.5
    sidecar.replies.clear()
    sidecar.reply({"results": [[["a", "b"]]]})
    listed = await documents.list_namespaces(prefix=("a", "*"), suffix=("b",), max_depth=2)
    assert listed == [("a", "b")]
    assert sidecar.body["operations"][0]["match_conditions"] == [
        {"match_type": "prefix", "path": ["a", "*"]},
        {"match_type": "suffix", "path": ["b"]},
    ]


async def test_delete_all_names_a_user(sidecar, documents):
    sidecar.reply({"deleted": 2})
    assert await documents.delete_all("bob") == 2
    assert (sidecar.last.method, sidecar.last.url.query) == ("DELETE", b"user_id=bob")


@pytest.mark.parametrize("user_id", ["", "*", None])
async def test_nobody_is_not_everybody(sidecar, documents, user_id):
    with pytest.raises(InvalidArgumentError):
        await documents.delete_all(user_id)
    assert not sidecar.requests


@pytest.mark.parametrize("change", [{"namespace": ("a.b",)}, {"key": "\x00"}, {"ttl_s": -1}])
async def test_what_cannot_be_honoured_is_not_sent(sidecar, documents, change):
    call = {"namespace": ("a",), "key": "k", "value": {}, **change}
    with pytest.raises(InvalidArgumentError):
        await documents.put(**call)
    with pytest.raises(InvalidArgumentError, match="JSON"):
        await documents.put(("a",), "k", {"when": object()})
    assert not sidecar.requests


def test_both_classes_have_the_same_methods_and_parameters():
    def methods(kind):
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: member for name, member in found if not name.startswith("_")}

    blocking, awaiting = methods(Documents), methods(AsyncDocuments)
    assert set(blocking) == set(awaiting)
    for name, method in blocking.items():
        ours, theirs = inspect.signature(method), inspect.signature(awaiting[name])
        assert ours == theirs, name
        assert inspect.iscoroutinefunction(awaiting[name]) == (name != "of_user")
