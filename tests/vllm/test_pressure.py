"""A seeded storm: many kinds of requests at once in a cache and a bank far too small for them."""

import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from inferscale_vllm.bank import Bank

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

NUM_REQUESTS = 520
NUM_LISTS = 6
NUM_TOKENS = 4
BANK_BYTES = 11 * 2**20
"""The items take half as much again: 6 lists of 14 of 16 tokens, 12 kB each as int8."""
NEAR_TIE_NATS = 0.4
"""Two greedy runs may part where the two best tokens are this close: matrix products in bf16 round
differently with the number of requests in the batch, and every generated token feeds the rounding
back. A storm without any injection shows gaps up to 0.25 on this model. That nothing approximate
reaches an exact request at all is shown bit by bit in `test_gates.py`."""


def test_storm(start_engine: Any, plain_engine: Any, new_list: Any) -> None:
    """Inject, plain, build, delete and abort mixed, with preemptions and evictions. Nothing dies,
    nothing is lost.

    Every answer without injection must be a quiet engine's.
    """
    # 11 blocks of 128 tokens for up to 12 requests of up to 256 tokens each.
    flags = {"--num-gpu-blocks-override": "11", "--max-num-seqs": "12", "--max-model-len": "1024"}
    engine = start_engine(
        flags=[text for flag in flags.items() for text in flag],
        bank_options={"bank_size_bytes": BANK_BYTES, "kv_store_dtype": "int8"},
    )
    lists = [new_list(100 + n, sizes=[16] * 14, tail=12) for n in range(NUM_LISTS)]
    storm = _Storm(engine, lists)
    for number, made in enumerate(lists):
        engine.complete(made.prompt(), made.build(f"calm {number}"), tokens=1)
    with ThreadPoolExecutor(12) as pool:
        outcomes = Counter(pool.map(storm.request, range(NUM_REQUESTS)))
    assert engine.is_alive()
    assert outcomes["lost"] == 0, outcomes
    assert min(outcomes[k] for k in ("inject", "plain", "build", "delete", "abort")) > 20, outcomes
    metrics = engine.http.get("/metrics").text
    assert _metric(metrics, "vllm:num_preemptions_total") > 0
    counters = engine.status()["counters"]
    assert counters["injected_tokens"] > 2_000, counters
    _assert_evicted(engine)
    for ids, answer in storm.plain:
        _assert_same(answer, plain_engine.complete(ids, tokens=NUM_TOKENS))


def _assert_evicted(engine: Any) -> None:
    """Items left for others all the time, and the bank is whole and within its limit."""
    stats = engine.status()["bank"]
    assert stats["evicted_items"] > NUM_LISTS * 14, stats
    assert stats["size_bytes"] <= BANK_BYTES, stats
    [path] = engine.bank_dir.glob("*/rank0")
    bank = Bank(path, limit_bytes=BANK_BYTES)
    assert bank.check_integrity() == []
    bank.close()


class _Storm:
    def __init__(self, engine: Any, lists: list[Any]) -> None:
        self._engine = engine
        self._lists = lists
        self._lock = threading.Lock()
        self.plain: list[tuple[list[int], Any]] = []

    def request(self, number: int) -> str:
        rng = random.Random(number)
        made = rng.choice(self._lists)
        kind = rng.choices(
            ["inject", "plain", "build", "delete", "abort"], weights=[45, 20, 18, 5, 12]
        )[0]
        try:
            getattr(self, f"_{kind}")(number, rng, made)
        except (httpx.HTTPError, AssertionError):
            return "lost"
        return kind

    def _prompt(self, rng: random.Random, made: Any) -> tuple[list[int], list[int]]:
        order = rng.sample(range(len(made.items)), rng.randrange(4, len(made.items)))
        return order, made.prompt(order)

    def _inject(self, number: int, rng: random.Random, made: Any) -> None:
        order, prompt = self._prompt(rng, made)
        answer = self._engine.complete(
            prompt, made.inject(f"storm {number}", order), tokens=NUM_TOKENS
        )
        report = answer.report
        assert report["injected"] + report["native"] + report["prefilled"] == len(prompt)
        assert len(answer.token_ids) == NUM_TOKENS
        checked = self._engine.http.get(f"/inferscale/reports/storm {number}").json()
        assert not checked["max_error"]

    def _plain(self, number: int, rng: random.Random, made: Any) -> None:
        _, prompt = self._prompt(rng, made)
        answer = self._engine.complete(prompt, tokens=NUM_TOKENS)
        with self._lock:
            self.plain.append((prompt, answer))

    def _build(self, number: int, rng: random.Random, made: Any) -> None:
        params = made.build(f"storm build {number}")
        self._engine.complete(
            made.prompt(), params, tokens=1, cache_salt=f"storm {number}", priority=10
        )

    def _delete(self, number: int, rng: random.Random, made: Any) -> None:
        self._engine.delete(rng.sample(made.keys, 1))

    def _abort(self, number: int, rng: random.Random, made: Any) -> None:
        order, prompt = self._prompt(rng, made)
        body = {"model": "demo", "prompt": prompt, "max_tokens": 64, "temperature": 0}
        body |= {"stream": True, "kv_transfer_params": made.inject(f"storm {number}", order)}
        with self._engine.http.stream("POST", "/v1/completions", json=body) as response:
            for _ in zip(response.iter_lines(), range(rng.randrange(6)), strict=False):
                continue


def _assert_same(answer: Any, expected: Any) -> None:
    for index, (got, want) in enumerate(zip(answer.token_ids, expected.token_ids, strict=True)):
        if got == want:
            continue
        best = expected.alternatives[index]
        other = best.get(f"token_id:{got}")
        assert other is not None, f"token {index}: {got} is not among the quiet engine's best five"
        assert expected.logprobs[index] - other < NEAR_TIE_NATS, f"token {index}: {got}, not {want}"
        return


def _metric(text: str, name: str) -> float:
    return sum(float(li.split()[-1]) for li in text.splitlines() if li.startswith(name + "{"))
