"""The dialects accept what the released clients' own signatures accept.

Against snapshots, so that no release need be installed; the snapshots against what is installed;
and against the installed release itself if it is one of which there is no snapshot, so that a
newer one that differs is seen.
"""

import importlib.metadata
import inspect
import json
from typing import Any

import pytest

from inferscale.compat import DialectError, letta, mem0, zep
from inferscale.compat._refuse import Absent

from .snapshot import FOLDER, RELEASES, describe, path_of

OURS: dict[str, dict[str, Any]] = {
    "mem0ai": {
        "Memory": mem0.Memory(),
        "AsyncMemory": mem0.AsyncMemory(),
        "MemoryClient": mem0.MemoryClient(),
        "AsyncMemoryClient": mem0.AsyncMemoryClient(),
    },
    "zep-cloud": {"Zep": zep.Zep(), "AsyncZep": zep.AsyncZep()},
    "letta-client": {"Letta": letta.Letta(), "AsyncLetta": letta.AsyncLetta()},
}
# Everything else of theirs is refused; a method that goes missing shows as a difference here.
OFFERED = {
    "mem0ai": {
        *("add", "get", "get_all", "search", "update", "delete", "delete_all", "history"),
        *("from_config", "users", "delete_users", "batch_update", "batch_delete"),
    },
    "zep-cloud": {
        *("user.add", "user.create", "user.get", "user.update", "user.delete"),
        *("user.get_threads", "user.warm", "user.lookup"),
        *("thread.create", "thread.add_messages", "thread.add_messages_batch", "thread.get"),
        *("thread.get_user_context", "thread.get_context", "thread.list_messages"),
        *("thread.delete", "thread.list", "thread.list_all", "thread.lookup"),
        *("graph.add", "graph.add_batch", "graph.add_fact_triple", "graph.search"),
        *("graph.search_edges", "graph.search_episodes", "graph.get_context"),
        *("graph.create", "graph.get", "graph.delete", "graph.warm", "graph.lookup"),
        *("graph.edge.add", "graph.edge.get", "graph.edge.update", "graph.edge.delete"),
        *("graph.edge.list", "graph.edge.get_by_user_id", "graph.edge.get_by_graph_id"),
        *("graph.episode.add", "graph.episode.get", "graph.episode.delete"),
        *("graph.episode.get_by_user_id", "graph.episode.get_by_graph_id"),
    },
    "letta-client": {
        *("agents.passages.create", "agents.passages.list", "agents.passages.search"),
        *("agents.passages.delete", "passages.search"),
        *("blocks.create", "blocks.retrieve", "blocks.update", "blocks.delete", "blocks.list"),
        *("blocks.agents.list", "agents.blocks.list", "agents.blocks.retrieve"),
        *("agents.blocks.update", "agents.blocks.attach", "agents.blocks.detach"),
    },
}


def unknown() -> list[tuple[str, str]]:
    """Releases that are installed here, but of which there is no snapshot."""
    found = []
    for package in OURS:
        try:
            found.append((package, importlib.metadata.version(package)))
        except importlib.metadata.PackageNotFoundError:
            continue
    return [each for each in found if each not in RELEASES]


def load(package: str, version: str) -> dict[str, Any]:
    if (package, version) in unknown():
        return describe(package)
    described: dict[str, Any] = json.loads(path_of(package, version).read_text())
    return described


def cases() -> list[Any]:
    return [
        pytest.param(package, version, client, id=f"{package}-{version}-{client}")
        for package, version in (*RELEASES, *unknown())
        for client in load(package, version)["clients"]
    ]


def latest(package: str) -> tuple[str, str]:
    return [release for release in RELEASES if release[0] == package][-1]


def resolve(target: Any, name: str) -> Any:
    for part in name.split("."):
        target = getattr(target, part)
    return target


def call_shapes(parameters: list[list[str]]) -> list[tuple[list[str], dict[str, str]]]:
    """Least and full calls by position as far as allowed, and by name."""
    by_position = [p for p in parameters if p[1] == "positional_or_keyword"]
    by_name = [p for p in parameters if p[1] == "keyword_only"]
    shapes = []
    for kept in (lambda p: p[2] == "required", lambda p: True):
        named = {name: name for name, *_ in filter(kept, by_name)}
        placed = list(filter(kept, by_position))
        shapes.append(([name for name, *_ in placed], named))
        shapes.append(([], {name: name for name, *_ in placed} | named))
    return shapes


def is_offered(method: Any) -> bool:
    return not isinstance(method, Absent) and not (method.__doc__ or "").startswith("Not offered: ")


@pytest.mark.parametrize(("package", "version", "client"), cases())
def test_every_call_of_theirs_is_one_of_ours(package, version, client):
    broken = []
    for name, parameters in load(package, version)["clients"][client].items():
        if name == "__init__":
            continue
        signature = inspect.signature(resolve(OURS[package][client], name))
        for args, kwargs in call_shapes(parameters):
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                broken.append(f"{name}(*{args}, **{kwargs}): {error}")
    assert broken == []


@pytest.mark.parametrize(("package", "version", "client"), cases())
def test_what_is_not_offered_is_refused_whatever_is_passed(package, version, client):
    for name, parameters in load(package, version)["clients"][client].items():
        if name == "__init__":
            continue
        method = resolve(OURS[package][client], name)
        assert is_offered(method) == (name in OFFERED[package]), name
        if not is_offered(method):
            args, kwargs = call_shapes(parameters)[-1]
            with pytest.raises(DialectError, match=r"cannot be honoured: .{10}"):
                method(*args, **kwargs)


@pytest.mark.parametrize("package", sorted(OURS))
def test_each_method_that_is_offered_is_one_of_theirs(package):
    theirs = {
        name
        for each, version in RELEASES
        if each == package
        for methods in load(package, version)["clients"].values()
        for name in methods
    }
    assert OFFERED[package] <= theirs


@pytest.mark.parametrize("package", sorted(OURS))
def test_both_kinds_of_client_offer_the_same(package):
    for name, ours in OURS[package].items():
        if name.startswith("Async"):
            continue
        for method in OFFERED[package] & set(load(*latest(package))["clients"][name]):
            blocking, awaiting = (
                resolve(client, method) for client in (ours, OURS[package][f"Async{name}"])
            )
            assert inspect.signature(blocking).parameters == inspect.signature(awaiting).parameters
            assert inspect.iscoroutinefunction(awaiting) == (method != "from_config")


@pytest.mark.parametrize(("package", "version"), RELEASES)
def test_snapshots_say_what_the_installed_release_says(package, version):
    try:
        installed = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    if installed != version:
        pytest.skip(f"{package} {installed} is installed")
    assert describe(package) == load(package, version)


def test_every_snapshot_is_of_a_release_and_every_release_has_one():
    found = {path.name for path in FOLDER.iterdir() if not path.name.endswith("-answers.json")}
    assert found == {path_of(*each).name for each in RELEASES}
