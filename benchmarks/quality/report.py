"""Figures to rows, and rows to tables. Pure."""

import statistics
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks import _output
from benchmarks.quality import stats
from benchmarks.quality.measure import BALANCED, Arm, Figures

DEFAULT = "default"


def result(
    figures: Figures, reasons: dict[str, int], *, shipped: str, machine: str = ""
) -> dict[str, Any]:
    """The object that `--json` prints.

    Args:
        figures: what was measured.
        reasons: why requests were not injected as asked, by how often.
        machine: what it was measured on.
        shipped: name of the policy whose rows with the shipped `r` are called `default`.
    """
    return {
        "name": "quality",
        "command": "python -m benchmarks.quality " + " ".join(sys.argv[1:]),
        "machine": machine,
        "versions": _output.versions(),
        "shipped_policy": shipped,
        "rows": list(_rows(figures, shipped)),
        "sets": list(_sets(figures, shipped)),
        "builds": list(_builds(figures)),
        "declined": reasons,
    }


def _name(arm: Arm, shipped: str) -> str:
    is_default = arm.policy == shipped and arm.r == BALANCED
    return DEFAULT if is_default else arm.policy


def _rows(figures: Figures, shipped: str) -> Iterator[dict[str, Any]]:
    for arm, scored in figures.scored.items():
        low, high = stats.interval(scored)
        ttft = figures.ttft_ms.get((arm.k, arm.r))
        yield {
            "policy": _name(arm, shipped),
            "k": arm.k,
            "r": round(statistics.fmean(s.suffix for s in scored), 1),
            "questions": len(scored),
            "helped": sum(s.none - s.stuffed > stats.HELPS_NATS for s in scored),
            "recovered": round(stats.recovered(scored), 3),
            "recovered_lo": round(low, 3),
            "recovered_hi": round(high, 3),
            "recovered_all": round(stats.recovered(scored, only_helped=False), 3),
            "kl": round(statistics.fmean(s.kl for s in scored), 4),
            "kl_median": round(statistics.median(s.kl for s in scored), 4),
            "top1": round(statistics.fmean(s.top1 for s in scored), 3),
            # Stuffed text is timed cold; the native hit of the arm `text` is not timed.
            "ttft_ms": round(ttft, 1) if ttft is not None else None,
        }


def _sets(figures: Figures, shipped: str) -> Iterator[dict[str, Any]]:
    for (subject, arm), cases in figures.chosen.items():
        right = [case.arm for case in cases if case.stuffed]
        yield {
            "set": subject,
            "policy": _name(arm, shipped),
            "k": arm.k,
            "r": "balanced" if arm.r == BALANCED else arm.r,
            "cases": len(cases),
            "stuffed_right": len(right),
            "injected_right": sum(case.arm for case in cases),
            "kept": round(sum(right) / len(right), 3) if right else None,
            "kl": round(statistics.fmean(case.kl for case in cases), 4),
            "top1": round(statistics.fmean(case.top1 for case in cases), 3),
        }


def _builds(figures: Figures) -> Iterator[dict[str, Any]]:
    for policy, pools in figures.built.items():
        items = sum(bool(key) for built in pools for key in built.keys)
        yield {
            "policy": policy,
            "items": items,
            "prompt_tokens_per_item": round(sum(b.tokens for b in pools) / items, 1),
            "ms_per_item": round(1e3 * sum(b.seconds for b in pools) / items, 2),
            "depends_on": round(statistics.fmean(b.behind for b in pools), 1),
        }


def print_tables(found: dict[str, Any]) -> None:
    """Prints all tables in Markdown."""
    print(f"`default` is {found['shipped_policy']} with fidelity balanced.")
    for name in ("rows", "sets", "builds"):
        rows = found[name]
        if not rows:
            continue
        print()
        print("| " + " | ".join(rows[0]) + " |")
        print("|" + " --- |" * len(rows[0]))
        for row in rows:
            print("| " + " | ".join(str(value) for value in row.values()) + " |")
    print()
    print(f"Not injected as asked: {found['declined'] or 'none'}.")
