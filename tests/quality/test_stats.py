"""The figures of the evaluation, on made-up distributions whose answer is known."""

import math

import numpy as np
import pytest
from benchmarks.quality import stats, synthetic
from benchmarks.quality.__main__ import arms_of
from benchmarks.quality.measure import BALANCED, Arm, Chosen, Figures
from benchmarks.quality.report import result
from benchmarks.quality.stats import Scored


def scored(cluster: str, none: float, stuffed: float, arm: float) -> Scored:
    return Scored(cluster, none, stuffed, arm, kl=0.5, top1=1.0, suffix=3)


def test_likelihood_and_divergence_of_known_distributions():
    fair, biased = (np.log([[p, 1 - p]]) for p in (0.5, 0.9))
    assert stats.nll(biased, [0]) == pytest.approx(-math.log(0.9))
    assert stats.kl(fair, fair) == pytest.approx(0)
    expected = 0.5 * math.log(0.5 / 0.9) + 0.5 * math.log(0.5 / 0.1)
    assert stats.kl(fair, biased) == pytest.approx(expected)
    assert stats.top1(np.log([[0.6, 0.4]]), biased) == 1
    assert stats.top1(np.log([[0.4, 0.6]]), biased) == 0
    logits = np.array([[1000.0, 999.0]], np.float32)
    assert np.exp(stats.log_softmax(logits)).sum() == pytest.approx(1)


def test_recovered_counts_the_questions_that_memory_helps_with():
    helped, not_helped = scored("a", 3.0, 1.0, 1.5), scored("a", 1.0, 1.0, 9.0)
    assert stats.recovered([helped, not_helped]) == pytest.approx(0.75)
    assert stats.recovered([helped, not_helped], only_helped=False) == pytest.approx(-3.25)
    assert math.isnan(stats.recovered([not_helped]))


def test_the_interval_is_over_conversations_not_questions():
    alike = [scored("a", 3, 1, 1.2)] * 50
    assert stats.interval(alike) == pytest.approx((0.9, 0.9))
    low, high = stats.interval([*alike, *[scored("b", 3, 1, 2.0)] * 50])
    assert low == pytest.approx(0.5) and high == pytest.approx(0.9)
    assert all(math.isnan(x) for x in stats.interval([scored("a", 1, 1, 1)]))


def test_rows_of_the_shipped_policy_are_called_default():
    shipped, other = Arm("recent(8)", 20, BALANCED), Arm("generic(16)", 20, BALANCED)
    chosen = [
        Chosen(True, False, 0.1, 1.0),
        Chosen(True, True, 0.3, 0.0),
        Chosen(False, True, 0, 1),
    ]
    figures = Figures(
        scored={arm: [scored("a", 3, 1, 1.5)] for arm in (shipped, other, Arm("recent(8)", 20, 0))},
        chosen={("dates", shipped): chosen},
    )
    found = result(figures, {}, shipped="recent(8)")
    assert [row["policy"] for row in found["rows"]] == ["default", "generic(16)", "recent(8)"]
    assert found["rows"][0]["r"] == 3 and found["rows"][0]["recovered"] == 0.75
    (row,) = found["sets"]
    assert (row["stuffed_right"], row["kept"], row["cases"]) == (2, 0.5, 3)


def test_made_up_cases_are_the_same_every_time_and_answered_by_their_facts():
    cases = synthetic.cases(12)
    assert cases == synthetic.cases(12)
    assert {case.subject for case in cases} == set(synthetic.KINDS)
    for case in cases:
        assert case.wrong and case.answer not in case.wrong
        for answer in (case.answer, *case.wrong):
            assert any(answer in fact for fact in case.pool.facts)


def test_the_shipped_policy_comes_with_every_arm():
    arms = arms_of(["generic(16)"], [20, 50], [0, 30])
    assert arms[0] == Arm("recent(8)", 20, BALANCED)
    assert Arm("generic(16)", 50, 30) in arms and Arm("generic(16)", 20, 30) not in arms
