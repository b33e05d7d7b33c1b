"""Filters: each operator, what is refused, and that nothing is a wildcard."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.filter import compile_filter

DOC = {
    "city": "Lisbon",
    "age": 31,
    "score": 0.5,
    "vip": True,
    "tags": ["red", "blue"],
    "gone": None,
    "joined": "2025-03-01",
    "seen": "2025-03-01T10:00:00+02:00",
}


def _passes(filters: Any) -> bool:
    predicate = compile_filter(filters)
    assert predicate is not None
    return predicate(DOC)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"city": "Lisbon"}, True),
        ({"city": "lisbon"}, False),
        ({"city": "Lisbon", "age": 31}, True),
        ({"city": "Lisbon", "age": 32}, False),
        ({"city": ["Porto", "Lisbon"]}, True),
        ({"city": []}, False),
        ({"city": {"eq": "Lisbon"}}, True),
        ({"city": {"ne": "Lisbon"}}, False),
        ({"nothing": {"ne": "Lisbon"}}, True),
        ({"age": {"gt": 30, "lte": 31}}, True),
        ({"age": {"gt": 31}}, False),
        ({"age": {"gte": 31.0}}, True),
        ({"age": {"lt": "32"}}, False),
        ({"score": {"lt": 1}}, True),
        ({"nothing": {"lt": 1}}, False),
        ({"nothing": {"gte": 1}}, False),
        ({"age": {"in": [30, 31]}}, True),
        ({"age": {"nin": [30, 31]}}, False),
        ({"nothing": {"nin": [1]}}, True),
        ({"city": {"contains": "isb"}}, True),
        ({"city": {"contains": "ISB"}}, False),
        ({"city": {"icontains": "ISB"}}, True),
        ({"age": {"contains": "3"}}, False),
        ({"tags": "red"}, True),
        ({"tags": {"contains": "red"}}, True),
        ({"tags": {"contains": "re"}}, False),
        ({"tags": {"icontains": "RED"}}, True),
        ({"tags": {"in": ["green", "blue"]}}, True),
        ({"tags": {"ne": "red"}}, False),
        ({"vip": True}, True),
        ({"vip": 1}, False),
        ({"age": True}, False),
        ({"vip": {"gt": 0}}, False),
        ({"gone": None}, True),
        ({"nothing": None}, True),
        ({"city": None}, False),
        ({"joined": {"gte": "2025-01-01", "lt": "2026-01-01"}}, True),
        ({"seen": {"lt": "2025-03-01T08:00:01Z"}}, True),
        ({"seen": {"gt": "2025-03-01T08:00:01Z"}}, False),
        ({"AND": [{"city": "Lisbon"}, {"age": 31}]}, True),
        ({"OR": [{"city": "Porto"}, {"age": 31}]}, True),
        ({"NOT": [{"city": "Porto"}]}, True),
        ({"NOT": [{"city": "Porto"}, {"age": 31}]}, False),
        ({"NOT": {"city": "Lisbon"}}, False),
        ({"AND": [{"OR": [{"age": 1}, {"NOT": [{"vip": False}]}]}], "city": "Lisbon"}, True),
    ],
)
def test_meaning(filters: Any, expected: bool) -> None:
    assert _passes(filters) is expected


@pytest.mark.parametrize("value", ["*", "", "%", ".*", {"in": ["*"]}, {"contains": "*"}])
def test_nothing_is_a_wildcard(value: Any) -> None:
    assert not _passes({"city": value})


@pytest.mark.parametrize("nothing", [None, {}])
def test_no_filter_is_no_filter(nothing: Any) -> None:
    assert compile_filter(nothing) is None


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"age": {"between": [1, 2]}}, "unknown operator 'between'.*eq, ne, gt"),
        ({"age": {"$gt": 1}}, "unknown operator"),
        ({"age": {}}, "empty object"),
        ({"age": {"in": 3}}, "takes a list"),
        ({"age": {"in": [[1]]}}, "takes a list of"),
        ({"age": {"gt": None}}, "takes a number"),
        ({"age": {"gt": True}}, "not a boolean"),
        ({"age": {"eq": {"a": 1}}}, "takes a string"),
        ({"city": {"icontains": 3}}, "takes a string"),
        ({"AND": []}, "non-empty list"),
        ({"OR": "x"}, "non-empty list"),
        ({"NOT": [{}]}, "non-empty object"),
        ({"AND": [["city"]]}, "non-empty object"),
    ],
)
def test_nonsense_is_refused_with_what_would_do(filters: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        compile_filter(filters)


def test_size_is_bounded() -> None:
    deep: Any = {"city": "x"}
    for _ in range(50):
        deep = {"AND": [deep]}
    with pytest.raises(InvalidInput, match="deep"):
        compile_filter(deep)
    with pytest.raises(InvalidInput, match="conditions"):
        compile_filter({"OR": [{"age": i} for i in range(1000)]})


def test_a_message_does_not_repeat_a_long_name() -> None:
    with pytest.raises(InvalidInput) as raised:
        compile_filter({"x" * 10_000: {"y" * 10_000: 1}})
    assert len(raised.value.message) < 400


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
names = st.sampled_from(["city", "age", "AND", "OR", "NOT", "eq", "in", "gt", "contains", "x"])


@given(st.dictionaries(names, json_values, max_size=3), st.dictionaries(names, json_values))
def test_any_json_is_either_refused_or_evaluated(filters: Any, doc: Any) -> None:
    try:
        predicate = compile_filter(filters)
    except InvalidInput:
        return
    assert predicate is None or predicate(doc) in (True, False)
