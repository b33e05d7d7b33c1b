"""The verdict of the start-up self-test, for engines that inject well, badly and not at all."""

from typing import Any

import pytest
from tests.sidecar.engine.demo import demo_tokenizer
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale_sidecar.engine.logprobs import difference
from inferscale_sidecar.engine.selftest import (
    ALONE,
    ATTEMPTS,
    rendering_differs,
    self_test,
)
from inferscale_sidecar.engine.tokenizer import ChatTokenizer

TOKENS = 8


class LogitsEngine(FakeEngine):
    """Answers with log-probabilities: cold, natively cached (same salt again), or injected."""

    def __init__(self, *, native: float = 0.0, injected: float = 0.0) -> None:
        super().__init__()
        self._offsets = {"native": native, "injected": injected}
        self._salts: set[str] = set()

    def _answer(self, path: str, ids: list[int], report: dict[str, Any] | None) -> dict[str, Any]:
        salt = self.bodies[-1]["cache_salt"]
        arm = "injected" if report else "native" if salt in self._salts else "cold"
        self._salts.add(salt)
        offset = self._offsets.get(arm, 0.0)
        top = [{"token_id:5": -0.5 + offset, "token_id:6": -1.5} for _ in range(TOKENS)]
        answer = super()._answer(path, ids, report)
        answer["choices"][0]["logprobs"] = {"top_logprobs": top}
        return answer


class BusyEngine(LogitsEngine):
    """Others' requests stand in the batches of the first attempts, and make all logits differ."""

    def __init__(self, attempts: int, **offsets: float) -> None:
        super().__init__(injected=0.2)
        self._busy_attempts, self._alone = attempts, offsets
        self._crowded_steps = 0

    def _answer(self, path: str, ids: list[int], report: dict[str, Any] | None) -> dict[str, Any]:
        if len(self.builds) <= self._busy_attempts:
            self._crowded_steps += 1
        else:
            self._offsets = self._alone
        if report:
            report = {**report, "crowded_steps": self._crowded_steps}
        return super()._answer(path, ids, report)


async def run(engine: FakeEngine, tokenizer: ChatTokenizer | None = None):
    async with engine.client() as client:
        return await self_test(client, tokenizer or demo_tokenizer(), pause_s=0)


async def test_equal_logits_pass_and_leave_nothing_in_the_bank():
    engine = LogitsEngine()
    result = await run(engine)
    assert result.passed is True and result.error == result.spread == 0
    assert engine.enabled and not engine.bank
    (build,) = engine.builds
    assert build.captures[0].end % 16 == 0


async def test_a_difference_within_the_backends_own_spread_passes():
    result = await run(LogitsEngine(native=0.25, injected=0.125))
    assert result.passed is True
    assert (result.error, result.spread) == (0.125, 0.25)


@pytest.mark.parametrize(("stored", "passes"), [("plain", False), ("int8", True)])
async def test_compressed_items_may_move_logits_a_little(stored: str, passes: bool):
    engine = LogitsEngine(native=0.0, injected=0.04)
    engine.storage = {"format": stored}
    assert (await run(engine)).passed is passes


async def test_other_logits_switch_injection_off_and_say_by_how_much():
    engine = LogitsEngine(native=0.001, injected=0.3)
    result = await run(engine)
    assert result.passed is False and "0.299" in result.detail
    assert not engine.enabled


async def test_requests_beside_it_may_spoil_some_attempts_but_not_the_verdict():
    engine = BusyEngine(ATTEMPTS - 1)
    result = await run(engine)
    assert result.passed is True and engine.enabled and not engine.bank
    assert len(engine.builds) == ATTEMPTS


async def test_an_engine_that_is_always_busy_gets_no_verdict_and_keeps_injecting():
    engine = BusyEngine(ATTEMPTS)
    result = await run(engine)
    assert (result.passed, result.is_busy) == (None, True) and "busy" in result.detail
    assert engine.enabled and not engine.bank


async def test_a_defect_shows_as_soon_as_the_engine_is_quiet():
    engine = BusyEngine(2, injected=0.3)
    result = await run(engine)
    assert (result.passed, result.is_busy) == (False, False) and not engine.enabled
    assert len(engine.builds) == 2 + ALONE


async def test_an_item_that_is_not_injected_fails_with_the_reason():
    class Deaf(LogitsEngine):
        def _matched(self, inject, ids):
            return 0, "items_missing"

    engine = Deaf()
    result = await run(engine)
    assert result.passed is False and "items_missing" in result.detail and not engine.enabled


async def test_it_is_not_run_where_injection_is_off_already():
    engine = LogitsEngine()
    engine.enabled = False
    assert (await run(engine)).passed is None
    assert not engine.bodies


async def test_an_engine_that_refuses_the_test_is_served_without_injection():
    engine = LogitsEngine()
    engine.refuse = lambda body: True
    result = await run(engine)
    assert result.passed is False and "too hot" in result.detail and not engine.enabled


async def test_another_chat_template_is_noticed():
    other = ChatTokenizer(
        demo_tokenizer()._hf, chat_template="{% for m in messages %}{{ m['content'] }}{% endfor %}"
    )
    engine = LogitsEngine()
    async with engine.client() as client:
        await client.status()
        assert await rendering_differs(client, demo_tokenizer()) is None
        assert "renders chats differently" in (await rendering_differs(client, other) or "")
    assert (await run(engine, other)).passed is False


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([{"a": -1.0}], [{"a": -1.5}], 0.5),
        ([{"a": -1.0, "b": -2.0}], [{"a": -1.0, "c": -2.25}], 0.25),
        ([{"a": -1.0}, {"a": -9.0}], [{"b": -1.25}, {"a": -1.0}], 0.25),
        ([{"a": -1.0}], [{"b": -7.0}], 6.0),
    ],
    ids=["same-token", "other-last-place", "stops-at-another-choice", "nothing-in-common"],
)
def test_difference_of_two_runs(left, right, expected):
    assert difference(left, right) == expected
