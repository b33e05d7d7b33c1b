"""`python -m benchmarks.quality`: see `--help` and docs/quality.md.

The last line of `--json` is one object whose `rows` have `policy`, `k`, `r`, `questions`,
`recovered`, `recovered_lo`, `recovered_hi`, `kl`, `top1`, `ttft_ms`. What is shipped is marked by
policy `default`. Beside them stand `sets` (answers chosen rightly) and `builds`.
"""

import argparse
import asyncio
import itertools
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import _output
from benchmarks.quality import report, synthetic
from benchmarks.quality.cases import Case, locomo
from benchmarks.quality.measure import BALANCED, Arm, Measurement
from benchmarks.quality.prompts import Prompter
from benchmarks.quality.serving import ROOT, serving

from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.embed.sentence_transformer import SentenceTransformerEmbedder
from inferscale_sidecar.engine.tokenizer import ChatTokenizer

DATA_ENV = "INFERSCALE_LOCOMO"
DATA = ROOT.parent / "shared" / "data" / "locomo10.json"
TIMED = 5
POLICIES = ("generic(16)", "similar(8)+recent(8)")


def main() -> None:
    """Measure and print."""
    options = _options()
    found = asyncio.run(_run(options))
    if options.json:
        print(json.dumps(found))
    else:
        report.print_tables(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="under two minutes: few of everything")
    parser.add_argument("--questions", type=int, help="LoCoMo questions (default 300, quick 12)")
    parser.add_argument(
        "--conversations", type=int, help="of LoCoMo, 10 at most (default all, quick 2)"
    )
    parser.add_argument("--cases", type=int, help="of each made-up set (default 24, quick 2)")
    parser.add_argument("--policies", nargs="+", help="encode policies beside the shipped one")
    parser.add_argument("--k", nargs="+", type=int, help="facts in the prompt (default 20 50)")
    parser.add_argument(
        "--r",
        nargs="*",
        type=int,
        help="facts left to prefill, beside fidelity balanced (default 0)",
    )
    parser.add_argument("--model", default="demo", help="as the setting engine.model")
    parser.add_argument("--engine-arg", action="append", default=[], help="one more flag of vLLM")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get(DATA_ENV) or DATA),
        help=f"locomo10.json (or environment variable {DATA_ENV}); without it made-up sets only",
    )
    parser.add_argument(
        "--minutes", type=float, help="begin no question after so long (default 120, quick 1)"
    )
    options = parser.parse_args()
    quick = options.quick
    options.questions = options.questions if options.questions is not None else 12 if quick else 300
    options.conversations = options.conversations or (2 if quick else 10)
    options.minutes = options.minutes or (1 if quick else 120)
    options.cases = options.cases if options.cases is not None else 2 if quick else 24
    options.policies = options.policies or ([] if quick else list(POLICIES))
    options.k = options.k or ([20] if quick else [20, 50])
    options.r = options.r if options.r is not None else [0]
    return options


def shipped_policy() -> str:
    """Name of the encode policy that the sidecar uses when nothing is configured."""
    return WindowLimits().encode_policy.name


def arms_of(policies: list[str], ks: list[int], rs: list[int]) -> list[Arm]:
    """The shipped policy first; every policy with every k and every r that leaves something."""
    names = dict.fromkeys([shipped_policy(), *policies])
    return [Arm(name, k, r) for name in names for k in ks for r in [BALANCED, *rs] if r < k]


def in_turns(questions: list[Case], made_up: list[Case]) -> list[Case]:
    """List after list, one of LoCoMo and its share of the made-up ones in turns: a run that is cut
    short has covered both, the made-up ones completely unless it is cut in the last list.
    """
    real, other = (
        [list(own) for _, own in itertools.groupby(sorted(cases, key=_name), key=_name)]
        for cases in (questions, made_up)
    )
    share = -(-len(other) // max(1, len(real) - 1))
    order: list[list[Case]] = []
    for n in range(max(1, len(real))):
        order += real[n : n + 1] + other[n * share : (n + 1) * share]
    return list(itertools.chain.from_iterable(order))


def _name(case: Case) -> str:
    return case.pool.name


async def _run(options: argparse.Namespace) -> dict[str, Any]:
    machine = _output.machine()
    questions = _questions(options)
    cases = in_turns(questions, synthetic.cases(options.cases))
    vectors, queries = await _embedded(cases)
    arms = arms_of(options.policies, options.k, options.r)
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder), model=options.model, args=options.engine_arg) as engine:
            tokenizer = await asyncio.to_thread(ChatTokenizer.load, engine.model_folder)
            lists = ListTokenizer.for_model(tokenizer)
            run = Measurement(
                engine,
                Prompter(tokenizer, lists),
                lists,
                vectors=vectors,
                queries=queries,
                arms=arms,
            )
            _say(
                f"{len(questions)} questions, {len(cases) - len(questions)} made-up cases: encoding"
            )
            await run.run(cases, timed=TIMED, seconds=60 * options.minutes)
            _say("done")
            return report.result(
                run.figures, engine.reasons, shipped=shipped_policy(), machine=machine
            )


def _questions(options: argparse.Namespace) -> list[Case]:
    if options.questions and not options.data.is_file():
        _say(f"no LoCoMo at {options.data}: made-up sets only (--data, {DATA_ENV})")
        return []
    return locomo(options.data, options.questions, conversations=options.conversations)


async def _embedded(cases: list[Case]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Unit vectors of facts by pool, and of questions."""
    embedder = await asyncio.to_thread(SentenceTransformerEmbedder.load)
    pools = {case.pool.name: case.pool for case in cases}
    vectors = {name: await embedder.embed(pool.facts) for name, pool in pools.items()}
    texts = list(dict.fromkeys(case.question for case in cases))
    queries = dict(zip(texts, await embedder.embed(texts), strict=True))
    await embedder.close()
    return vectors, queries


def _say(text: str) -> None:
    _output.note(f"{time.strftime('%H:%M:%S')} {text}")


if __name__ == "__main__":
    main()
