"""The dialects accept what the released clients' own signatures accept.

Against snapshots, so that no release need be installed; and the snapshots against what is.
"""

import importlib.metadata
import inspect
import json
from typing import Any

import pytest

from inferscale.compat import mem0

from .snapshot import FOLDER, RELEASES, describe, path_of

OURS: dict[str, dict[str, Any]] = {
    "mem0ai": {name: getattr(mem0, name) for name in mem0.__all__ if name.endswith("y")}
    | {"MemoryClient": mem0.MemoryClient(), "AsyncMemoryClient": mem0.AsyncMemoryClient()},
}


def load(package: str, version: str) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(path_of(package, version).read_text())
    return described


def cases() -> list[Any]:
    return [
        pytest.param(package, version, client, id=f"{package}-{version}-{client}")
        for package, version in RELEASES
        if package in OURS
        for client in load(package, version)["clients"]
    ]


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


@pytest.mark.parametrize(("package", "version", "client"), cases())
def test_every_call_of_theirs_is_one_of_ours(package, version, client):
    broken = []
    for name, parameters in load(package, version)["clients"][client].items():
        if name == "__init__":
            continue
        signature = inspect.signature(resolve(OURS[package][client], name))
        for args, kwargs in call_shapes(parameters):
            # Looked up on a class, a method still wants its self.
            own = ["self"] if next(iter(signature.parameters), "") == "self" else []
            try:
                signature.bind(*own, *args, **kwargs)
            except TypeError as error:
                broken.append(f"{name}(*{args}, **{kwargs}): {error}")
    assert broken == []


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
    assert {path.name for path in FOLDER.iterdir()} == {path_of(*each).name for each in RELEASES}
