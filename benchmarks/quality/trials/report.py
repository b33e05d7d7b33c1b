"""`python -m benchmarks.quality.trials.report RECORDS.jsonl`: tables of what `trials` recorded.

Owns the figures of an arm beside the first arm of its series, on the questions that both were
asked. Pure but for reading. Intervals resample questions: a trial has too few conversations.
"""

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import _output
from benchmarks.quality.stats import HELPS_NATS, RESAMPLES

Record = dict[str, Any]
_Asked = tuple[str, int]


def rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """One row per series, k and arm, in the order of `records`."""
    arms: dict[tuple[str, int, str], dict[_Asked, Record]] = {}
    for one in records:
        own = arms.setdefault((one["series"], one["k"], one["arm"]), {})
        own[_asked(one)] = one
    first: dict[tuple[str, int], dict[_Asked, Record]] = {}
    for (series, k, arm), own in arms.items():
        if arm == BASE:
            first[series, k] = own
    return [
        {"series": series, "k": k, "arm": arm, **_row(own, first.get((series, k), {}))}
        for (series, k, arm), own in arms.items()
    ]


BASE = "recent(8)/40 r=0 best_last"
"""What ships, all injected: the arm that others stand beside."""


def _asked(one: Record) -> _Asked:
    return one["pool"].split()[0], one["question"]


def _row(own: dict[_Asked, Record], base: dict[_Asked, Record]) -> dict[str, Any]:
    found = list(own.values())
    both = [asked for asked in own if asked in base]
    less = [_mean_kl(own[a]) - _mean_kl(base[a]) for a in both]
    low, high = _interval(less)
    kls = [_mean_kl(one) for one in found]
    return {
        "questions": len(found),
        "kl": round(statistics.fmean(kls), 4),
        "kl_median": round(statistics.median(kls), 4),
        "kl_first": round(statistics.fmean(one["kl"][0] for one in found), 4),
        "kl_base": round(statistics.fmean(_mean_kl(base[a]) for a in both), 4) if both else None,
        "kl_less_base": round(statistics.fmean(less), 4) if less else None,
        "kl_less_base_lo": low,
        "kl_less_base_hi": high,
        "top1": round(statistics.fmean(statistics.fmean(one["same"]) for one in found), 3),
        "recovered": _recovered(found, "stuffed"),
        "recovered_of_usual_text": _recovered(found, "usual"),
    }


def _mean_kl(one: Record) -> float:
    return statistics.fmean(one["kl"])


def _interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """95 % bootstrap interval of the mean."""
    if not values:
        return None, None
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(np.array(values)[drawn].mean(1), [2.5, 97.5])
    return round(float(low), 4), round(float(high), 4)


def _recovered(found: Sequence[Record], text: str) -> float | None:
    """Share of the benefit of a text that is kept, where that text helps."""
    helped = [one for one in found if one["none"] - one[text] > HELPS_NATS]
    benefit = sum(one["none"] - one[text] for one in helped)
    kept = sum(one["none"] - one["nll"] for one in helped)
    return round(kept / benefit, 3) if benefit else None


def main() -> None:
    """Prints a table, or one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.trials.report")
    parser.add_argument("records", type=Path, nargs="+")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    lines = [line for path in options.records for line in path.read_text().splitlines()]
    found = rows(json.loads(line) for line in lines)
    if options.json:
        result = {"name": "quality-experiments", "versions": _output.versions(), "rows": found}
        print(json.dumps(result | {"machine": _output.machine()}))
        return
    print("| " + " | ".join(found[0]) + " |\n|" + " --- |" * len(found[0]))
    for row in found:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")


if __name__ == "__main__":
    main()
