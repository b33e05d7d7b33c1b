"""The document store's own rules: filters without an order, paths into JSON, limits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale.protocol import document as wire
from inferscale_sidecar.errors import InvalidInput, TooLarge
from inferscale_sidecar.service.document_filter import compile_document_filter
from inferscale_sidecar.service.document_text import MAX_TEXTS, texts_at

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@pytest.mark.parametrize(
    ("value", "filters", "passes"),
    [
        ({"day": "2026-11-30"}, {"day": {"$gt": "2026-11-09"}}, True),
        ({"day": "2026-11-30"}, {"day": {"$lt": "2026-11-09"}}, False),
        ({"n": "10"}, {"n": {"$gt": "9"}}, True),  # text that spells numbers is compared as such
        ({"n": None}, {"n": {"$gt": 1}}, False),
        ({}, {"n": {"$lte": 1}}, False),
        ({"n": [1]}, {"n": {"$gte": 1}}, False),
        ({"n": "x"}, {"n": {"$gte": 1}}, False),
        ({"n": 10**400}, {"n": {"$gt": 1}}, False),
        ({}, {"n": {"$ne": 1}}, True),
        ({"n": 2}, {"n": {"$gte": 1, "$lt": 2}}, False),
    ],
)
def test_comparisons(value: dict[str, Any], filters: dict[str, Any], passes: bool) -> None:
    assert compile_document_filter(filters)(value) is passes


@given(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), SCALARS, SCALARS)
def test_a_comparison_never_raises(operator: str, value: Any, wanted: Any) -> None:
    assert compile_document_filter({"f": {operator: wanted}})({"f": value}) in (True, False)


@given(SCALARS)
def test_equal_is_what_is_not_unequal(value: Any) -> None:
    for wanted in (value, "another"):
        equal = compile_document_filter({"f": {"$eq": wanted}})({"f": value})
        assert compile_document_filter({"f": {"$ne": wanted}})({"f": value}) is not equal
        assert compile_document_filter({"f": wanted})({"f": value}) is equal


@pytest.mark.parametrize(
    "filters", [{"n": {"$near": 1}}, {"n": {"$gt": 1, "x": 2}}, {"n": {"x": [{"$or": []}]}}]
)
def test_unknown_operators_are_named(filters: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="unknown operator"):
        compile_document_filter(filters)


def test_depth_is_limited() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = {"x": deep}
    with pytest.raises(InvalidInput, match="deep"):
        compile_document_filter({"f": deep})


DOCUMENT: dict[str, Any] = {
    "text": "t",
    "n": 7,
    "none": None,
    "meta": {"title": "m", "tags": ["x", "y"]},
    "parts": [{"text": "p0"}, {"text": "p1", "more": 1}, "plain"],
}


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("text", ["t"]),
        ("n", ["7"]),
        ("none", []),
        ("missing.x", []),
        ("meta.title", ["m"]),
        ("meta.tags", ['["x", "y"]']),
        ("meta.tags[*]", ["x", "y"]),
        ("meta.tags[-1]", ["y"]),
        ("meta.tags[5]", []),
        ("meta.tags[x]", []),
        ("parts[*].text", ["p0", "p1"]),
        ("parts[0]", ['{"text": "p0"}']),
        ("meta.*", ["m", '["x", "y"]']),
        ("{text,meta.title,missing}", ["t", "m"]),
        ("text.deeper", []),
    ],
)
def test_paths(path: str, texts: list[str]) -> None:
    assert texts_at(DOCUMENT, [path]) == texts


def test_the_whole_document_is_sorted_json() -> None:
    assert texts_at({"b": "é", "a": 1}, ["$"]) == ['{"a": 1, "b": "é"}']


def test_too_many_texts_are_refused() -> None:
    value = {"parts": ["x"] * (MAX_TEXTS + 1)}
    with pytest.raises(InvalidInput, match="257"):
        texts_at(value, ["parts[*]"])


async def test_a_value_has_a_limit_and_is_json(world: Any) -> None:
    big = wire.Put(namespace=["a"], key="k", value={"x": "é" * 2**19})
    with pytest.raises(TooLarge, match="1048576"):
        await world.documents.batch(world.tenant, None, [big])
    for bad in (float("nan"), float("inf"), "\ud800", {"deep": "\udfff"}):
        put = wire.Put(namespace=["a"], key="k", value={"x": bad})
        with pytest.raises(InvalidInput, match="value"):
            await world.documents.batch(world.tenant, None, [put])
    assert await world.documents.batch(world.tenant, None, [wire.Search()]) == [[]]


async def test_texts_are_embedded_once_for_a_batch(world: Any) -> None:
    puts = [
        wire.Put(namespace=["a"], key=f"k{n}", value={"t": ["x", "y"]}, index=["t[*]"])
        for n in range(3)
    ]
    await world.documents.batch(world.tenant, None, puts)
    assert world.embedder.num_embedded == 6
    found = await world.documents.batch(world.tenant, None, [wire.Search(query="y")])
    assert [each.score for each in found[0]] == [1.0, 1.0, 1.0]
