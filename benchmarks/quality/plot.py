"""`python -m benchmarks.quality.plot RESULT.json FOLDER`: KL against TTFT, a curve per policy.

One SVG per k. The input is what `python -m benchmarks.quality --json` prints. Needs matplotlib.
"""

import argparse
import json
from itertools import groupby
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def curves(found: dict[str, Any], k: int) -> dict[str, list[Row]]:
    """Rows with `k` facts by policy, few left to prefill first; `default` and `text` are points.

    Other policies under fidelity balanced, whose r is a mean, are left out.
    """
    rows = [
        row
        for row in found["rows"]
        if row["k"] == k
        and row["ttft_ms"] is not None
        and (row["policy"] == "default" or row["r"] == int(row["r"]))
    ]
    rows.sort(key=lambda row: (row["policy"], row["r"]))
    return {policy: list(own) for policy, own in groupby(rows, key=lambda row: row["policy"])}


def draw(found: dict[str, Any], k: int, path: Path) -> None:
    """Draws one figure."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "inferscale"  # the same figures give the same file
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for policy, rows in curves(found, k).items():
        ttft, kl = [row["ttft_ms"] for row in rows], [row["kl"] for row in rows]
        axes.plot(
            ttft, kl, "*" if policy == "default" else "o-", ms=13 if policy == "default" else 5
        )
        for row in rows:
            where = (row["ttft_ms"], row["kl"])
            axes.annotate(f"r={row['r']:g}", where, (3, 4), textcoords="offset points", size=7)
        axes.lines[-1].set_label(policy)
    questions = max(row["questions"] for row in found["rows"])
    axes.set(
        title=f"{k} facts, at most {questions} questions",
        xlabel="TTFT (ms), median",
        ylabel="KL(text ‖ injected), nats",
        xscale="log",
        ylim=(0, None),
    )
    axes.legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Reads, draws, names the files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.plot")
    parser.add_argument("result", type=Path, help="what `benchmarks.quality --json` printed")
    parser.add_argument("folder", type=Path, help="where quality-k20.svg and the like go")
    options = parser.parse_args()
    found = json.loads(options.result.read_text().splitlines()[-1])
    options.folder.mkdir(parents=True, exist_ok=True)
    for k in sorted({row["k"] for row in found["rows"]}):
        path = options.folder / f"quality-k{k}.svg"
        draw(found, k, path)
        print(path)


if __name__ == "__main__":
    main()
