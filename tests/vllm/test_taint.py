"""Approximate blocks get other names, exact ones keep theirs, and equal ones agree."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale_vllm import compat
from inferscale_vllm.plan import Span
from inferscale_vllm.taint import taint

SIZE = 4


@pytest.fixture(scope="module", autouse=True)
def _vllm_hashes() -> None:
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core.kv_cache_utils import init_none_hash

    init_none_hash(get_hash_fn_by_name("sha256"))


def hash_function(value: Any) -> bytes:
    from vllm.utils.hashing import get_hash_fn_by_name

    result: bytes = get_hash_fn_by_name("sha256")(value)
    return result


class Request(SimpleNamespace):
    """What the hashing code reads of vLLM's `Request`."""

    def __init__(self, tokens: list[int]) -> None:
        super().__init__(
            all_token_ids=list(tokens),
            block_hashes=[],
            mm_features=[],
            lora_request=None,
            cache_salt=None,
            prompt_embeds=None,
            _block_hasher=_exact_hasher,
        )
        self.update_block_hashes()

    @property
    def num_tokens(self) -> int:
        return len(self.all_token_ids)

    def update_block_hashes(self) -> None:
        self.block_hashes.extend(self._block_hasher(self))

    def generate(self, tokens: list[int]) -> None:
        for token in tokens:
            self.all_token_ids.append(token)
            self.update_block_hashes()


def _exact_hasher(request: Any) -> list[bytes]:
    names, parent = [], request.block_hashes[-1] if request.block_hashes else None
    start = len(request.block_hashes) * SIZE
    while start + SIZE <= request.num_tokens:
        block = request.all_token_ids[start : start + SIZE]
        parent = compat.hash_block(hash_function, parent, block, None)
        names.append(parent)
        start += SIZE
    return names


def tainted(tokens: list[int], *spans: Span, start: int = 0) -> Request:
    request = Request(tokens)
    taint(request, spans, start=start, block_size=SIZE, hash_function=hash_function)
    return request


TOKENS = list(range(100, 120))
ITEM = Span(6, 10, "key", 0)


def test_blocks_before_the_span_keep_their_names() -> None:
    exact, other = Request(TOKENS).block_hashes, tainted(TOKENS, ITEM).block_hashes
    assert len(exact) == len(other) == 5
    assert exact[0] == other[0]
    assert not set(exact[1:]) & set(other[1:])


def test_a_block_completed_by_generated_tokens_is_tainted() -> None:
    """A prompt of 6 tokens whose span ends in block 1: vLLM names that block while decoding."""
    exact, other = Request(TOKENS[:6]), tainted(TOKENS[:6], Span(3, 6, "key", 0))
    for request in (exact, other):
        request.generate(TOKENS[6:12])
    assert len(other.block_hashes) == 3
    assert not set(exact.block_hashes) & set(other.block_hashes)


def test_next_turn_with_the_same_items_hits() -> None:
    first = tainted(TOKENS[:14], ITEM)
    first.generate(TOKENS[14:])
    assert tainted(TOKENS, ITEM).block_hashes == first.block_hashes


def test_other_items_or_offsets_are_other_names() -> None:
    names = {
        tainted(TOKENS, span).block_hashes[-1]
        for span in (ITEM, Span(6, 10, "other", 0), Span(5, 10, "key", 0))
    }
    assert len(names) == 3


def test_exact_blocks_that_the_cache_holds_now_keep_their_names() -> None:
    spans = (Span(0, 6, "prefix", 0), ITEM)
    exact, other = Request(TOKENS).block_hashes, tainted(TOKENS, *spans, start=4).block_hashes
    assert exact[0] == other[0] and exact[1] != other[1]


def test_without_prefix_caching_there_is_nothing_to_name() -> None:
    request = Request(TOKENS)
    request._block_hasher = None
    before = list(request.block_hashes)
    taint(request, (ITEM,), start=0, block_size=SIZE, hash_function=hash_function)
    assert request.block_hashes == before


@given(st.integers(0, 18), st.integers(1, 10), st.integers(1, 20))
def test_no_block_at_or_behind_a_span_has_its_exact_name(
    start: int, size: int, prompt: int
) -> None:
    span = Span(start, min(start + size, 20), "key", 0)
    exact, other = Request(TOKENS[:prompt]), tainted(TOKENS[:prompt], span)
    for request in (exact, other):
        request.generate(TOKENS[prompt:])
    for index, (a, b) in enumerate(zip(exact.block_hashes, other.block_hashes, strict=True)):
        assert (a == b) == ((index + 1) * SIZE <= start)
