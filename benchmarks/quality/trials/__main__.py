"""`python -m benchmarks.quality.trials SERIES… --out RECORDS.jsonl`, see `--help`."""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.quality.prompts import Prompter
from benchmarks.quality.serving import ROOT, serving
from benchmarks.quality.trials.forge import Forge
from benchmarks.quality.trials.frames import FRAMES
from benchmarks.quality.trials.questions import load
from benchmarks.quality.trials.run import Frame, Trial, say
from benchmarks.quality.trials.series import SERIES

from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.engine.tokenizer import ChatTokenizer

FACTS = 20


def main() -> None:
    """Runs series after series in one engine; records are added to the file as they come."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality.trials")
    parser.add_argument(
        "series", nargs="+", type=_series, help=f"{', '.join(SERIES)}; opening@50: with 50 facts"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON lines are added to it")
    parser.add_argument("--questions", type=int, default=30, help="of LoCoMo (default 30)")
    parser.add_argument("--conversations", type=int, default=3, help="of LoCoMo (default 3)")
    parser.add_argument("--minutes", type=float, default=12, help="for each series (default 12)")
    parser.add_argument(
        "--data", type=Path, default=ROOT.parent / "shared/data/locomo10.json", help="locomo10.json"
    )
    asyncio.run(_run(parser.parse_args()))


def _series(text: str) -> tuple[str, int]:
    """Name and number of facts in the prompt."""
    name, _, k = text.partition("@")
    if name not in SERIES:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(SERIES)}")
    return name, int(k or FACTS)


async def _run(options: argparse.Namespace) -> None:
    asked = {(name, k): await load(name, options) for name, k in options.series}
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as engine:
            say("the engine is up")
            tokenizer = await asyncio.to_thread(ChatTokenizer.load, engine.model_folder)
            markers = (*tokenizer.markers, *tokenizer.role_markers)
            shown = {name: kind(markers) for name, kind in FRAMES.items()}
            lists = {name: ListTokenizer(tokenizer, frame) for name, frame in shown.items()}
            forge = Forge(Path(folder) / "bank")
            for (name, k), own in asked.items():
                frames = {
                    n: Frame(Prompter(tokenizer, of, own.system), of) for n, of in lists.items()
                }
                write = _writer(options.out, name, k)
                trial = Trial(engine, frames, forge, own, write)
                deadline = time.monotonic() + 60 * options.minutes
                await trial.run(SERIES[name], k, deadline)


def _writer(path: Path, series: str, k: int) -> Callable[[dict[str, Any]], None]:
    def write(record: dict[str, Any]) -> None:
        with path.open("a") as file:
            file.write(json.dumps({"series": series, "k": k, **record}) + "\n")

    return write


if __name__ == "__main__":
    main()
