"""Planning is arithmetic on token ids: checked against a slow truth and by its invariants."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from inferscale.protocol.engine import Shown
from inferscale_vllm.bank import ItemHeader
from inferscale_vllm.plan import (
    Span,
    begins_of,
    clip,
    find_chain,
    item_spans,
    prefix_key,
    prefix_starts,
    segments,
)

few_tokens = st.integers(
    0, 2
)  # few kinds of tokens, so that accidental matches happen all the time
items = st.lists(st.lists(few_tokens, min_size=1, max_size=3), min_size=1, max_size=4)


def ids(values: list[int]) -> np.ndarray:
    return np.asarray(values, np.int32)


def slow_chain(prompt: list[int], wanted: list[list[int]]) -> tuple[int, int]:
    best = (0, 0)
    for start in range(len(prompt)):
        at, count = start, 0
        for item in wanted:
            if prompt[at : at + len(item)] != item:
                break
            at, count = at + len(item), count + 1
        if count and count >= best[1]:
            best = (start, count)
    return best


@given(st.lists(few_tokens, max_size=20), items)
def test_find_chain_is_the_slow_search(prompt: list[int], wanted: list[list[int]]) -> None:
    assert find_chain(ids(prompt), [ids(w) for w in wanted]) == slow_chain(prompt, wanted)


def test_find_chain_does_not_match_across_token_boundaries() -> None:
    """0x01000000 holds the bytes of 0x00000001 at another offset: bytes are not tokens."""
    assert find_chain(ids([0x01000000, 0x01000000]), [ids([0x00000001])]) == (0, 0)


def test_find_chain_prefers_the_later_of_two_equal_lists() -> None:
    """The memory block stands at the end of the system message; an agent may quote it before."""
    assert find_chain(ids([7, 8, 9, 0, 7, 8, 9]), [ids([7]), ids([8, 9])]) == (4, 2)


def headers(sizes: list[int]) -> list[ItemHeader]:
    return [ItemHeader(size, 100 + size, 0, 0, ids([0] * size)) for size in sizes]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 50), st.data())
def test_segments_cover_every_token_once(sizes: list[int], start: int, data: st.DataObject) -> None:
    spans = item_spans(start, [f"{n:064x}" for n in range(len(sizes))], headers(sizes))
    end = spans[-1].end
    low = data.draw(st.integers(start, end - 1))
    high = data.draw(st.integers(low + 1, end))
    pieces = segments(clip(spans, high), low, high)
    covered = [p.position + i for p in pieces for i in range(p.num_tokens)]
    assert covered == list(range(low, high))
    for piece in pieces:
        span = spans[int(piece.key, 16)]
        assert piece.position - piece.source == span.start
        assert piece.shift == span.start - span.built_at


def test_clip_shortens_the_span_that_crosses() -> None:
    spans = (Span(0, 5, "a", 0), Span(5, 9, "b", 20))
    assert clip(spans, 7) == (Span(0, 5, "a", 0), Span(5, 7, "b", 20))
    assert clip(spans, 5) == (Span(0, 5, "a", 0),)


def test_prefix_key_depends_on_tenant_tokens_and_start() -> None:
    keys = {
        prefix_key("a", ids([1, 2, 3]), 0),
        prefix_key("b", ids([1, 2, 3]), 0),
        prefix_key("a", ids([1, 2, 4]), 0),
        prefix_key("a", ids([1, 2, 3]), 1),
    }
    assert len(keys) == 4


def test_prefix_starts() -> None:
    assert prefix_starts(40, 128, 512) == [0]
    assert prefix_starts(300, 128, 512) == [0, 256]
    assert prefix_starts(900, 128, 512) == [896]
    assert prefix_starts(896, 128, 512) == []  # vLLM's own blocks hold all of it


@given(
    before=st.lists(few_tokens, max_size=4),
    texts=st.lists(
        st.tuples(st.lists(few_tokens, min_size=1, max_size=3), st.booleans()), max_size=5
    ),
    tail=st.lists(few_tokens, max_size=4),
    after=st.lists(few_tokens, max_size=2),
)
def test_no_text_begins_behind_where_it_is_said_to(
    before: list[int], texts: list[tuple[list[int], bool]], tail: list[int], after: list[int]
) -> None:
    """Few kinds of tokens: openings and items are found by accident, but never too late."""
    prompt = [*before, *after]
    truth, pairs, known = [], [], {}
    for number, (text, has_item) in enumerate(texts):
        truth.append(len(prompt))
        prompt += text
        key = f"key {number}" if has_item else None
        pairs.append((f"text {number}", key))
        known |= {key: ids(text)} if key else {}
    found = begins_of(ids([*prompt, *tail]), [Shown(tuple(after), tuple(pairs))], known)
    assert [name for _, name in found] == [name for name, _ in pairs]
    assert all(said <= begin for (said, _), begin in zip(found, truth, strict=True))


def test_texts_begin_where_their_items_stand() -> None:
    prompt = ids([1, 2, 9, 9, 50, 51, 3, 4, 60, 61, 5])
    known = {"a": ids([50, 51]), "c": ids([60, 61])}
    frame = Shown((9, 9), (("A", "a"), ("B", None), ("C", "c"), ("D", "not in the bank")))
    assert begins_of(prompt, [frame], known) == [(4, "A"), (6, "B"), (8, "C"), (10, "D")]
    assert begins_of(prompt, [Shown((8, 8), (("A", None),))], known) == [(0, "A")]
