"""The SDK's public surface: what is exported, and that both clients offer the same."""

import inspect
import types

import pytest

import inferscale
from inferscale import AsyncMemory, Memory

LAZY = {"AsyncOpenAI", "OpenAI"}


def _methods(kind):
    dunder = {"__init__", "__enter__", "__exit__", "__aenter__", "__aexit__", "__repr__"}
    return {
        name: member
        for name, member in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") or name in dunder
    }


def test_all_is_sorted_and_is_exactly_what_is_public():
    public = {
        name
        for name, value in vars(inferscale).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    }
    public -= {"Any", "TYPE_CHECKING"}
    constants_first = sorted(inferscale.__all__, key=lambda name: (not name.isupper(), name))
    assert inferscale.__all__ == constants_first
    assert set(inferscale.__all__) == public | {"__version__"}
    assert set(dir(inferscale)) == set(inferscale.__all__) | LAZY


def test_public_names_say_so():
    for name in inferscale.__all__:
        value = getattr(inferscale, name)
        if isinstance(value, type | types.FunctionType):
            assert value.__module__ == "inferscale", name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="Memroy"):
        inferscale.Memroy  # noqa: B018


def test_the_surface_of_a_client():
    assert sorted(name for name in _methods(Memory) if not name.startswith("_")) == [
        "add",
        "builds",
        "chat",
        "close",
        "delete",
        "delete_all",
        "delete_where",
        "entities",
        "export_to",
        "extraction",
        "get",
        "get_all",
        "get_handle",
        "history",
        "import_from",
        "recall",
        "report",
        "search",
        "update",
        "wait_until_ready",
    ]


def test_both_clients_have_the_same_methods_and_parameters():
    blocking = _methods(Memory)
    awaiting = {name.replace("__a", "__"): m for name, m in _methods(AsyncMemory).items()}
    assert set(blocking) == set(awaiting)
    for name, method in blocking.items():
        ours, theirs = inspect.signature(method), inspect.signature(awaiting[name])
        if name == "__init__":  # differs by the type of http_client
            assert list(ours.parameters) == list(theirs.parameters)
            continue
        assert ours.parameters == theirs.parameters, name
        assert inspect.iscoroutinefunction(awaiting[name]) == (name not in ("__init__", "__repr__"))
        if name != "chat":  # the two kinds of stream
            assert ours.return_annotation == theirs.return_annotation or name.startswith("__")


def test_every_public_method_is_documented():
    for kind in (Memory, AsyncMemory):
        for name, method in _methods(kind).items():
            assert name.startswith("_") or inspect.getdoc(method), f"{kind.__name__}.{name}"
