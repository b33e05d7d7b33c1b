"""Memory behind a history, on real vLLM: the history is a native hit, and nothing poisons it."""

import random
from typing import Any

import pytest

from inferscale.protocol.engine import build_params

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

SECRET, TENANT = "a secret of the tests", "tenant-a"
BLOCK = 128  # tokens, of vLLM on CPU


def draw(seed: int, count: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(1000, 40_000) for _ in range(count)]


def build(engine: Any, made: Any, request_id: str) -> None:
    engine.complete(made.prompt(), made.build(request_id), tokens=1, cache_salt=request_id)


def prepare(engine: Any, history: list[int], request_id: str) -> Any:
    """What the sidecar sends when an answer has ended: the history, exactly, its tail captured."""
    params = build_params(
        SECRET, request_id=request_id, salt=TENANT, captures=(), prefix_end=len(history)
    )
    return engine.complete([*history, history[-1]], params, tokens=1)


def test_turns_of_a_conversation(engine: Any, plain_engine: Any, new_list: Any) -> None:
    """Three turns with other memory each. The exact requests that the plain engine sees are those
    that the sidecar makes: what was injected in between may leave no trace, in no bit.
    """
    made, history, native = new_list(60, sizes=[25] * 12), draw(61, 300), 0
    build(engine, made, "turns build")
    for turn in range(3):
        prepare(engine, history, f"prepare {turn}")
        plain_engine.complete([*history, history[-1]], tokens=1)
        order = random.Random(turn).sample(range(12), 12)
        items = [token for n in order for token in made.items[n]]
        question = draw(70 + turn, 12)
        prompt = [*history, *items, *question]
        answer = engine.complete(prompt, made.inject(f"turn {turn}", order), tokens=40)
        native = len(history) // BLOCK * BLOCK
        report = answer.report
        assert (report["native"], report["reason"]) == (native, None)
        assert report["injected"] == len(history) - native + len(items)
        assert report["prefilled"] == len(question)

        continued = [*prompt, *answer.token_ids]
        exact = engine.complete(continued)
        assert exact.cached_tokens == native, "no block of what was injected may be found"
        assert exact.bits == plain_engine.complete(continued).bits
        history = [*history, *question, *answer.token_ids]
        assert engine.complete(history).bits == plain_engine.complete(history).bits


def test_it_says_what_a_native_hit_says(engine: Any, new_list: Any) -> None:
    """Items injected where they were built, behind a history in vLLM's own cache, whose tail comes
    from the bank: as close to a cold run as a native hit is.
    """
    made = new_list(62, head=300, sizes=[21] * 8)
    build(engine, made, "behind build")
    engine.complete(made.head[:257], tokens=1, cache_salt="behind")
    injected = engine.complete(made.prompt(), made.inject("behind"), cache_salt="behind")
    report = injected.report
    assert (report["native"], report["injected"]) == (256, 300 - 256 + 8 * 21)
    cold = engine.complete(made.prompt(), cache_salt="behind, cold")
    assert injected.token_ids == cold.token_ids
    assert max(abs(a - b) for a, b in zip(injected.logprobs, cold.logprobs, strict=True)) < 0.1


def test_a_tail_whose_blocks_are_gone_is_not_used(engine: Any, new_list: Any) -> None:
    """The bank has the tail, vLLM's cache not what stands before it (another salt)."""
    made, history = new_list(63, sizes=[20] * 6), draw(64, 600)
    build(engine, made, "gone build")
    prepare(engine, history, "gone prepare")
    items = [token for item in made.items for token in item]
    prompt = [*history, *items, *made.tail]
    answer = engine.complete(prompt, made.inject("gone"), cache_salt="another")
    assert (answer.report["injected"], answer.report["reason"]) == (0, "prefix_not_captured")
    answer = engine.complete(prompt, made.inject("there"))
    assert (answer.report["native"], answer.report["prefilled"]) == (512, len(made.tail))
