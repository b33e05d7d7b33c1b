"""The quality check measures what it says, refuses what is bad, and leaves nothing behind."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sidecar.engine.demo import demo_lists, demo_tokenizer
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.engine.client import EngineClient
from inferscale_sidecar.engine.verdict import VerdictFile
from inferscale_sidecar.errors import EngineUnavailable, Unsupported
from inferscale_sidecar.service.quality import QualityCheck
from inferscale_sidecar.service.quality_cases import CASES
from inferscale_sidecar.service.quality_figures import MAX_KL, QualityFigures, coarse_kl
from inferscale_sidecar.service.quality_gate import QualityGate

Answer = Callable[[bool], dict[str, float]]


class TopEngine(FakeEngine):
    """Gives the next token's distribution: `tops(is_injected)`."""

    def __init__(self, tops: Answer) -> None:
        super().__init__()
        self._tops = tops

    def _answer(self, path: str, ids: list[int], report: dict[str, Any] | None) -> dict[str, Any]:
        is_injected = bool(report and report["op"] == "inject")
        answer = super()._answer(path, ids, report)
        answer["choices"][0]["logprobs"] = {"top_logprobs": [self._tops(is_injected)]}
        return answer


def logs(**shares: float) -> dict[str, float]:
    return {token: math.log(share) for token, share in shares.items()}


def same(is_injected: bool) -> dict[str, float]:
    return logs(a=0.6, b=0.3)


def another_best(is_injected: bool) -> dict[str, float]:
    return logs(a=0.48, b=0.5) if is_injected else logs(a=0.5, b=0.48)


def far(is_injected: bool) -> dict[str, float]:
    return logs(a=0.3, b=0.05) if is_injected else logs(a=0.9, b=0.05)


def check_of(client: EngineClient, policy: str = "recent(8)") -> QualityCheck:
    return QualityCheck(client, demo_tokenizer(), demo_lists(), WindowLimits(policy=policy))


async def measured(engine: FakeEngine, policy: str = "recent(8)") -> QualityFigures:
    async with engine.client() as client:
        await client.status()
        return await check_of(client, policy).run()


@pytest.mark.parametrize("policy", ["recent(8)", "generic(16)", "similar(8)+recent(8)"])
async def test_equal_distributions_pass_and_nothing_is_left(policy: str) -> None:
    engine = TopEngine(same)
    figures = await measured(engine, policy)
    assert figures.passed is True and figures.kl == 0 and figures.top1 == 1
    assert figures.cases == CASES and figures.positions > 5 * CASES
    assert not engine.bank
    injected = [b for b in engine.bodies if "kv_transfer_params" in b]
    assert all(b["cache_salt"] for b in engine.bodies)
    assert len(injected) - len(engine.builds) == 2 * figures.positions


@pytest.mark.parametrize("tops", [another_best, far])
async def test_other_distributions_fail_with_the_figures(tops: Answer) -> None:
    figures = await measured(TopEngine(tops))
    assert figures.passed is False
    assert f"{figures.kl:.3f}" in figures.detail and f"{figures.top1:.1%}" in figures.detail


async def test_what_was_not_injected_is_not_judged() -> None:
    class Deaf(TopEngine):
        def _matched(self, inject: Any, ids: Any) -> tuple[int, str | None]:
            return 0, "items_missing"

    figures = await measured(Deaf(same))
    assert figures.passed is None and "items_missing" in figures.detail


async def test_it_is_not_run_where_injection_is_off() -> None:
    engine = TopEngine(same)
    engine.enabled = False
    with pytest.raises(Unsupported):
        await measured(engine)


class TestGate:
    @pytest.fixture
    def verdicts(self, tmp_path: Path) -> VerdictFile:
        return VerdictFile(tmp_path / "quality")

    async def test_a_bad_model_is_refused_now_and_after_a_restart(
        self, verdicts: VerdictFile
    ) -> None:
        engine = TopEngine(far)
        async with engine.client() as client:
            await client.status()
            await QualityGate(client, check_of(client), verdicts).run()
            assert not engine.enabled and not client.can_inject
            engine.enabled = True
            await client.status()
            await QualityGate(client, check_of(client), verdicts).apply()
            assert not engine.enabled

    async def test_another_policy_is_another_question(self, verdicts: VerdictFile) -> None:
        engine = TopEngine(far)
        async with engine.client() as client:
            await client.status()
            await QualityGate(client, check_of(client), verdicts).run()
            engine.enabled = True
            await QualityGate(client, check_of(client, "recent(16)"), verdicts).apply()
            assert engine.enabled

    async def test_a_model_that_got_better_is_injected_into_again(
        self, verdicts: VerdictFile
    ) -> None:
        tops = [far]
        engine = TopEngine(lambda is_injected: tops[0](is_injected))
        async with engine.client() as client:
            await client.status()
            gate = QualityGate(client, check_of(client), verdicts)
            assert (await gate.run()).passed is False
            tops[0] = same
            assert (await gate.run()).passed is True
            assert engine.enabled and client.can_inject

    async def test_a_broken_recheck_leaves_it_refused(self, verdicts: VerdictFile) -> None:
        engine = TopEngine(far)
        async with engine.client() as client:
            await client.status()
            gate = QualityGate(client, check_of(client), verdicts)
            await gate.run()
            engine.refuse = lambda body: True
            with pytest.raises(Exception, match="too hot"):
                await gate.run()
            assert not engine.enabled

    async def test_a_dead_engine_is_said_to_be_dead(self, verdicts: VerdictFile) -> None:
        engine = TopEngine(same)
        async with engine.client() as client:
            await client.status()
            engine.is_down = True
            with pytest.raises((EngineUnavailable, Unsupported)):
                await QualityGate(client, check_of(client), verdicts).run()

    def test_an_unreadable_verdict_is_ignored(self, verdicts: VerdictFile, tmp_path: Path) -> None:
        verdicts.keep("f", "p", passed=False, detail="bad")
        assert verdicts.objection("f", "p") == "bad"
        (file,) = (tmp_path / "quality").iterdir()
        file.write_text(json.dumps(["?"]))
        assert verdicts.objection("f", "p") is None


def test_coarse_kl_is_a_lower_bound_and_zero_for_equals() -> None:
    text, other = logs(a=0.7, b=0.2), logs(a=0.4, c=0.3)
    assert coarse_kl(text, text) == 0
    exact = 0.7 * math.log(0.7 / 0.4) + 0.2 * math.log(0.2 / 0.01) + 0.1 * math.log(0.1 / 0.59)
    assert MAX_KL < coarse_kl(text, other) <= exact
