"""One suite for every vector index; the numpy one is the truth for the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferscale_sidecar.index import FaissFlatIndex, FlatIndex, IndexFactory

DIM = 8
each_index = pytest.mark.parametrize("create", [FlatIndex, FaissFlatIndex])


def _unit(seed: int, n: int, dim: int = DIM) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


@each_index
def test_the_best_come_first(create: IndexFactory) -> None:
    vectors = _unit(0, 50)
    index = create(DIM)
    index.put(list(range(50)), vectors)
    found = index.search(vectors[7], 5)
    expected = np.argsort(-(vectors @ vectors[7]))[:5]
    assert [label for label, _ in found] == list(expected)
    assert found[0] == (7, 1.0)


@each_index
def test_put_replaces_and_remove_forgets(create: IndexFactory) -> None:
    vectors = _unit(1, 3)
    index = create(DIM)
    index.put([1, 2], vectors[:2])
    index.put([2, 3], vectors[1:][::-1])
    assert len(index) == 3
    assert index.search(vectors[2], 1) == [(2, 1.0)]
    index.remove([2, 99])
    assert len(index) == 2
    assert 2 not in dict(index.search(vectors[2], 9))


@each_index
def test_k_is_a_limit_and_not_a_demand(create: IndexFactory) -> None:
    index = create(DIM)
    query = _unit(2, 1)[0]
    assert index.search(query, 5) == []
    index.put([], np.empty((0, DIM), dtype=np.float32))
    index.put([1], query[None])
    assert index.search(query, 0) == []
    assert index.search(query, 1_000_000) == [(1, 1.0)]


@each_index
def test_allowed_is_applied_before_k(create: IndexFactory) -> None:
    vectors = _unit(3, 100)
    index = create(DIM)
    index.put(list(range(100)), vectors)
    best = [label for label, _ in index.search(vectors[0], 100)]
    worst = best[-3:]
    found = index.search(vectors[0], 3, allowed=[*worst, 12345])
    assert [label for label, _ in found] == worst
    assert index.search(vectors[0], 3, allowed=[]) == []


@each_index
def test_ties_go_to_the_larger_label_also_across_the_cut(create: IndexFactory) -> None:
    vector = _unit(4, 1)
    index = create(DIM)
    labels = list(range(200))
    index.put(labels, np.repeat(vector, 200, axis=0))
    assert [label for label, _ in index.search(vector[0], 3)] == [199, 198, 197]


operations = st.lists(
    st.tuples(
        st.sampled_from(["put", "remove"]),
        st.lists(st.integers(0, 20), max_size=8, unique=True),
        st.integers(0, 5),  # few distinct vectors, so that ties happen
    ),
    max_size=20,
)


@settings(max_examples=150, deadline=None)
@given(
    operations,
    st.integers(0, 30),
    st.one_of(st.none(), st.lists(st.integers(0, 25), max_size=10)),
)
def test_faiss_agrees_with_the_truth(
    steps: list[tuple[str, list[int], int]], k: int, allowed: list[int] | None
) -> None:
    pool = _unit(5, 16)
    flat, fast = FlatIndex(DIM), FaissFlatIndex(DIM)
    for what, labels, shift in steps:
        for index in (flat, fast):
            if what == "put":
                index.put(labels, pool[[(label + shift) % 6 for label in labels]])
            else:
                index.remove(labels)
    assert len(flat) == len(fast)
    expected, found = (index.search(pool[9], k, allowed=allowed) for index in (flat, fast))
    assert [label for label, _ in found] == [label for label, _ in expected]
    assert np.allclose([s for _, s in found], [s for _, s in expected], atol=2e-6)
