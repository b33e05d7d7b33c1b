"""Tables of trials: an arm beside the shipped way, on the questions that both were asked."""

from typing import Any

from benchmarks.quality.trials.report import rows


def record(arm: str, question: int, kl: float, nll: float = 1.0) -> dict[str, Any]:
    known = {"none": 3.0, "stuffed": 1.0, "usual": 1.0, "nll": nll}
    lists = {"kl": [2 * kl, 0.0], "same": [True, False], "hit": [], "text_hit": []}
    about = {"series": "s", "k": 20, "arm": arm, "pool": "conv-1", "question": question}
    return {**about, **known, **lists}


def test_an_arm_is_compared_on_the_questions_that_the_shipped_way_was_asked_too():
    shipped = "recent(8)/40 r=0 best_last"
    records = [record(shipped, n, 0.06) for n in range(4)]
    records += [record("other r=0 best_last", n, 0.02, nll=1.5) for n in range(2, 8)]
    first, other = rows(records)
    assert (first["kl_less_base"], first["recovered"], first["top1"]) == (0, 1, 0.5)
    assert (other["questions"], other["kl"], other["kl_first"]) == (6, 0.02, 0.04)
    assert other["kl_less_base"] == other["kl_less_base_hi"] == -0.04
    assert other["recovered"] == 0.75
