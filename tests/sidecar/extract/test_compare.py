"""Two sentences: the same, the opposite, or simply different. Doubt means different."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from inferscale_sidecar.extract.compare import is_negation, is_restatement
from inferscale_sidecar.extract.judge import MAX_PAIRS, LlmJudge, Pair


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("The user likes tea.", "User likes tea"),
        ("ADA LIVES IN OSLO!", "Ada lives in Oslo."),
        ("Ada owns two dogs", "Ada owns two dog"),
        ("用户喜欢绿茶。", "用户喜欢绿茶"),
        ("Ａda likes café", "Ada likes cafe\u0301"),
    ],
)
def test_restatements(new: str, old: str) -> None:
    assert is_restatement(new, old)
    assert is_restatement(old, new)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Ada has 5 years of experience", "Ada has 6 years of experience"),
        ("Ada owes -5", "Ada owes 5"),
        ("Ada pays $5", "Ada pays €5"),
        ("Ada weighs 3.5 kg", "Ada weighs 35 kg"),
        ("Ada flies on 2026-05-04", "Ada flies on 2026-04-05"),
        ("Ada flies on Monday", "Ada flies on Tuesday"),
        ("Ada is not a doctor", "Ada is a doctor"),
        ("Ada doesn't smoke", "Ada does smoke"),
        ("Ada was a smoker", "Ada is a smoker"),
        ("Ada loves Bob", "Bob loves Ada"),
        ("Ada likes tea", "Bob says Ada likes tea"),
        ("Ada likes tea", "Ada likes tea only on Sundays"),
        ("Ada likes tea", "Ann likes tea"),
        ("Ada likes tea?", "Ada likes tea"),
        ("用户不喜欢绿茶", "用户喜欢绿茶"),
        ("...", "!!!"),
        ("I feel 😀", "I feel 😢"),
    ],
)
def test_differences(new: str, old: str) -> None:
    assert not is_restatement(new, old)
    assert not is_restatement(old, new)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("The user does not eat meat", "The user eats meat"),
        ("User doesn't like tea anymore", "The user likes tea"),
        ("Ada never smokes", "Ada smokes"),
        ("用户不喜欢绿茶", "用户喜欢绿茶"),
        ("Ada wohnt nicht in Oslo", "Ada wohnt in Oslo"),
    ],
)
def test_plain_negations_are_seen_without_a_model(new: str, old: str) -> None:
    assert is_negation(new, old)
    assert is_negation(old, new)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Ada does not eat meat", "Ada does not eat meat"),
        ("Ada does not eat meat", "Ada eats fish"),
        ("Bob does not eat meat", "Ada eats meat"),
        ("Ada did not run 5 km", "Ada did run 6 km"),
        ("no", "yes"),
        ("not", "the"),
    ],
)
def test_what_is_no_plain_negation(new: str, old: str) -> None:
    assert not is_negation(new, old)


class Scripted:
    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.num_asked = 0

    async def complete(self, body: Mapping[str, Any], *, salt: str = "") -> str:
        self.num_asked += 1
        return self.answer

    async def close(self) -> None: ...


async def test_a_judges_numbers_are_checked() -> None:
    pairs = [Pair(f"new {i}", f"old {i}") for i in range(3)]
    for answer, wanted in (
        ('{"outdated": [1, 7, -1, "2", true, null]}', {1}),
        ('{"outdated": []}', set()),
        ("```json\n[0, 2]\n```", {0, 2}),
        ('{"other": [1]}', set()),
        ("I cannot tell.", set()),
    ):
        assert await LlmJudge(Scripted(answer)).outdated(pairs) == wanted
    assert await LlmJudge(Scripted("")).outdated([]) == set()


async def test_a_judge_is_asked_in_bounded_calls() -> None:
    model = Scripted(json.dumps({"outdated": [0]}))
    pairs = [Pair("new", "old")] * (2 * MAX_PAIRS + 1)
    assert await LlmJudge(model).outdated(pairs) == {0, MAX_PAIRS, 2 * MAX_PAIRS}
    assert model.num_asked == 3
