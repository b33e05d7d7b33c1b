"""The `memory` field: one shape from every spelling, and nothing else touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale import InvalidArgumentError, memory_field, merge_extra_body
from inferscale._handle import create_handle

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
SPELLINGS = st.sampled_from(["mh_1", {"handle": "mh_1"}, {"user_id": "a", "k": 3}])


@given(st.none() | st.dictionaries(st.text(max_size=5), JSON), SPELLINGS)
def test_merging_is_idempotent_and_keeps_the_rest(body, memory):
    before = dict(body or {})
    once = merge_extra_body(body, memory)
    assert merge_extra_body(once, memory) == once
    assert {**once, "memory": None} == {**before, "memory": None}
    assert (body or {}) == before
    assert merge_extra_body(once, None) == once
    assert merge_extra_body(once, "mh_2")["memory"] == {"handle": "mh_2"}


def test_spellings(handle_body):
    handle = create_handle(handle_body)
    assert memory_field(handle) == memory_field(handle.id) == handle.as_field()
    scope = {"user_id": "a", "threshold": 0.5, "inject": False}
    assert memory_field(scope) == scope


@pytest.mark.parametrize(
    "wrong",
    ["alice", "", {}, {"k": 3}, {"user_id": "*"}, {"user_id": "a", "top_k": 3}, 5, ["mh_1"]],
)
def test_what_is_no_memory_is_refused(wrong):
    with pytest.raises(InvalidArgumentError, match="memory"):
        memory_field(wrong)
