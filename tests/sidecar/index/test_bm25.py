"""BM25: what is found, how it is ordered, and that removing and adding leave no trace."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inferscale_sidecar.index.bm25 import Bm25Index
from inferscale_sidecar.index.words import terms

WORDS = ["tea", "rum", "oslo", "ann", "the", "likes"]


def _index(*texts: str) -> Bm25Index:
    index = Bm25Index()
    index.put(list(range(len(texts))), list(texts))
    return index


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我很喜欢绿茶", "绿茶"),
        ("ฉันชอบชาเขียวมาก", "ชาเขียว"),
        ("東京タワーの近くに住んでいます", "東京"),
        ("우리 집은 서울에 있다", "서울에"),
        ("मुझे चाय पसंद है", "चाय"),
        ("أحب الشاي", "الشاي"),
        ("we won 🎉 at last", "🎉"),
        ("ÜBER die Straße", "über strasse"),
        ("invoice INV-2041", "2041"),
    ],
)
def test_every_script_is_found(text: str, query: str) -> None:
    index = _index("something else", text, "другое")
    assert [label for label, _ in index.search(query, 5)] == [1]


def test_rare_words_count_more_and_scores_are_shares() -> None:
    index = _index("the user likes tea", "the user likes rum", "the user", "the zebra")
    found = index.search("the zebra", 9)
    assert found[0][0] == 3
    assert 0 < found[-1][1] < found[0][1] <= 1
    assert index.search("giraffe", 9) == []
    assert index.search("", 9) == index.search("tea", 0) == Bm25Index().search("tea", 3) == []


def test_a_word_that_nobody_has_lowers_the_share() -> None:
    index = _index("green tea", "red wine")
    assert index.search("tea", 1)[0][1] > index.search("tea giraffe", 1)[0][1]


def test_ties_go_to_the_larger_label_and_k_cuts_there() -> None:
    index = _index(*["tea"] * 20)
    assert [label for label, _ in index.search("tea", 3)] == [19, 18, 17]
    assert [label for label, _ in index.search("tea", 3, allowed=[4, 2, 9, 99])] == [9, 4, 2]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.none() | st.lists(st.sampled_from(WORDS), max_size=5)),
        max_size=120,
    ),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
)
def test_only_the_set_of_texts_counts(
    steps: list[tuple[int, list[str] | None]], query: list[str]
) -> None:
    index, model = Bm25Index(), dict[int, str]()
    for label, words in steps:
        if words is None:
            index.remove([label])
            model.pop(label, None)
        else:
            model[label] = " ".join(words)
            index.put([label], [model[label]])
    fresh = Bm25Index()
    fresh.put(sorted(model), [model[label] for label in sorted(model)])
    assert len(index) == len(model)
    found, expected = (each.search(" ".join(query), 40) for each in (index, fresh))
    assert [label for label, _ in found] == [label for label, _ in expected]
    assert np.allclose([s for _, s in found], [s for _, s in expected])


def test_holes_are_closed() -> None:
    index = Bm25Index()
    for round_ in range(5):
        index.put(list(range(300)), [f"tea {round_}"] * 300)
    assert index.search("4", 1) == index.search("4 4", 1)
    assert index.search("0", 5) == []
    assert len(index.search("tea", 1_000)) == 300


def test_terms_are_folded_and_split() -> None:
    assert terms("Ada's CAFÉ, don't!") == ["ada", "café", "don't"]
    assert terms("绿茶tea") == ["绿", "茶", "绿茶", "tea"]
    assert terms("_ ... '") == []
