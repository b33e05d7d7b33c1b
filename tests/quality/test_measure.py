"""The whole run without an engine: what is built, what is asked, and what the rows say."""

from typing import Any

import numpy as np
import pytest
from benchmarks.quality import report, synthetic
from benchmarks.quality.__main__ import arms_of, in_turns
from benchmarks.quality.cases import Case, Pool
from benchmarks.quality.measure import BALANCED, TEXT, Measurement
from benchmarks.quality.prompts import Prompter
from tests.sidecar.engine.demo import demo_lists, demo_tokenizer
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale_sidecar.compose.order import suffix_items

VOCABULARY = 49152


class FakeServing:
    """Thinks the same of equal prompts, and a little else of injected ones."""

    def __init__(self, client: Any, engine: FakeEngine) -> None:
        self.client, self._engine = client, engine
        self.asked: list[tuple[int, int, bool]] = []
        self.missing: list[str] = []

    async def score(self, ids, answer, params=None, *, salt=None):
        keys = params["inferscale"]["items"] if params else []
        self.missing += [key for key in keys if key not in self._engine.bank]
        self.asked.append((len(ids), len(keys), salt is not None))
        rng = np.random.default_rng(sum(ids) % 2**32)
        logits = rng.normal(size=(len(answer), 64))
        logits = np.pad(logits, ((0, 0), (0, VOCABULARY - 64)), constant_values=-20.0)
        logits[np.arange(len(answer)), list(answer)] = 4.0 - 0.1 * bool(keys)
        if len(ids) < 80:  # without memory
            logits[np.arange(len(answer)), list(answer)] = -3.0
        shifted = logits - logits.max(-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)), {}

    async def ttft_ms(self, ids, params=None):
        return 10.0 if params else 100.0


def vectors(*texts: str) -> np.ndarray:
    made = np.stack([np.random.default_rng(sum(map(ord, t))).normal(size=8) for t in texts])
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize(("conversations", "cases"), [(10, 24), (10, 12), (2, 2), (0, 6), (3, 0)])
def test_made_up_lists_are_done_before_the_last_conversation(conversations: int, cases: int):
    pools = [Pool(f"conv-{n}", ("a fact",)) for n in range(conversations)]
    real = [Case("locomo", pool, f"{n}?", "yes") for n in range(4) for pool in pools]
    made_up = synthetic.cases(cases) if cases else []
    order = in_turns(real, made_up)
    assert sorted(map(repr, order)) == sorted(map(repr, [*real, *made_up]))
    names = list(dict.fromkeys(case.pool.name for case in order))
    assert all(
        order[at].pool.name == order[at + 1].pool.name
        for at in range(len(order) - 1)
        if order[at + 1].pool.name in {case.pool.name for case in order[: at + 1]}
    ), "list by list"
    if conversations > 1:
        assert names[0].startswith("conv") and names[-1].startswith("conv")


@pytest.mark.timeout(60)
async def test_a_run_builds_all_that_it_injects_and_reports_every_arm():
    pool = Pool("conv-1", tuple(f"Fact number {n} about topic {n % 7}." for n in range(30)))
    questions = [Case("locomo", pool, f"What about topic {n}?", "It is blue.") for n in range(3)]
    cases = [*questions, *synthetic.cases(1, ["updates"])]
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        serving = FakeServing(client, engine)
        run = Measurement(
            serving,  # type: ignore[arg-type]
            Prompter(demo_tokenizer(), demo_lists()),
            demo_lists(),
            vectors={case.pool.name: vectors(*case.pool.facts) for case in cases},
            queries={case.question: vectors(case.question)[0] for case in cases},
            arms=arms_of(["generic(2)", "similar(2)+recent(2)"], [10], [0]),
        )
        await run.run(cases, timed=2, seconds=60)
    assert not serving.missing
    found = report.result(run.figures, {}, shipped="recent(8)")
    rows = {(row["policy"], row["r"]): row for row in found["rows"]}
    assert {policy for policy, _ in rows} == {
        *("default", "recent(8)", "generic(2)", "similar(2)+recent(2)", TEXT)
    }
    assert all(row["questions"] == 3 and row["helped"] == 3 for row in found["rows"])
    assert rows[TEXT, 10]["kl"] == 0 and rows[TEXT, 10]["recovered"] == 1
    assert rows["recent(8)", 0]["kl"] > 0 and 0.9 < rows["recent(8)", 0]["recovered"] < 1
    assert (rows[TEXT, 10]["ttft_ms"], rows["recent(8)", 0]["ttft_ms"]) == (100, 10)
    assert {keys for _, keys, _ in serving.asked} <= {0, 10, *range(10 - suffix_items(10), 10)}
    assert {row["r"] for row in found["sets"]} == {"balanced", 0}
    built = {row["policy"]: row for row in found["builds"]}
    assert built["generic(2)"]["depends_on"] == 0 < built["recent(8)"]["depends_on"]
    assert BALANCED not in {row["r"] for row in found["rows"]}
