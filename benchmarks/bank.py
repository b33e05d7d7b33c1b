"""`python -m benchmarks.bank`: what compressed items cost in bytes and in answers.

Each dtype is an engine of its own, with the same items, prompts and answers (the made-up sets of
`benchmarks.quality`). `bytes_per_token` is what an item of the `dtype` takes per token and rank,
`bf16_bytes_per_token` what an uncompressed one takes. `kl_added` is the mean KL, over the positions
of the right answers, of the dtype's injection from uncompressed injection. Builds and questions go
one by one: what is computed beside other requests rounds differently. The row of bf16 says what
that alone does: its `kl_added` is of the same uncompressed items, encoded beside each other in
place of one after the other (`kl_repeated`: the same requests once more, with the same items).
`--compute float32` has the model compute so, which takes rounding away and leaves what the format
itself does; uncompressed items are then float32.
"""

import asyncio
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import _output
from benchmarks.quality import stats, synthetic
from benchmarks.quality.cases import Case, Pool
from benchmarks.quality.encode import TENANT, build
from benchmarks.quality.prompts import Prompter
from benchmarks.quality.serving import Serving, serving

from inferscale.protocol.engine import inject_params
from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.embed.sentence_transformer import SentenceTransformerEmbedder
from inferscale_sidecar.engine.tokenizer import ChatTokenizer

DTYPES = ("bf16", "int8", "k8v4")
ITEMS = 20
MAX_FACTS = WindowLimits().new_items
"""Of a pool: as many as one build holds, so that all engines build the same."""
Vectors = Mapping[str, np.ndarray]
Answers = list[np.ndarray]
"""Logprobs `[positions, vocabulary]` of each case's right answer."""


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    parser.add_argument("--cases", type=int, help="of each made-up set (default 12, quick 1)")
    parser.add_argument("--model", default="demo", help="as the setting engine.model")
    parser.add_argument(
        "--compute", choices=["bfloat16", "float32"], default="bfloat16", help="vLLM's --dtype"
    )
    options = parser.parse_args()
    machine = _output.machine()
    count = options.cases or (1 if options.quick else 12)
    cases = _small(synthetic.cases(count, seed=options.seed))
    rows = asyncio.run(_measure(options.model, options.compute, cases))
    _output.show("bank", machine, rows, as_json=options.json)


def _small(cases: Sequence[Case]) -> list[Case]:
    """The cases whose lists fit into one build; longer lists are cut behind what is asked about."""
    found = []
    for case in cases:
        facts = case.pool.facts
        if len(facts) > MAX_FACTS:
            asked = [n for n, fact in enumerate(facts) if case.answer in fact]
            first = max(0, (asked[-1] if asked else 0) + 1 - MAX_FACTS)
            facts = facts[first : first + MAX_FACTS]
        pool = Pool(f"{case.pool.name} {len(found)}", facts)
        found.append(Case(case.subject, pool, case.question, case.answer, case.wrong))
    return found


async def _measure(model: str, compute: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
    embedder = await asyncio.to_thread(SentenceTransformerEmbedder.load)
    vectors = {case.pool.name: await embedder.embed(case.pool.facts) for case in cases}
    queries = {case.pool.name: (await embedder.embed([case.question]))[0] for case in cases}
    await embedder.close()
    rows: list[dict[str, Any]] = []
    truth: Answers = []
    for dtype in DTYPES:
        _output.note(f"{time.strftime('%H:%M:%S')} {dtype}: {len(cases)} questions")
        with tempfile.TemporaryDirectory() as folder:
            async with serving(
                Path(folder), model=model, store_dtype=dtype, args=("--dtype", compute)
            ) as engine:
                run = await _Run.start(engine, vectors, queries)
                await run.build(cases)
                found = again = await run.answers(cases)
                if dtype == "bf16":
                    truth, again = found, await run.answers(cases)
                    await run.build_again(cases)
                    found = await run.answers(cases)
                status = await engine.client.status()
                repeated = _mean_kl(truth, again) if dtype == "bf16" else None
                row = _row(dtype, status, _mean_kl(truth, found))
                rows.append({**row, "compute": compute, "kl_repeated": repeated})
    return rows


def _mean_kl(truth: Answers, found: Answers) -> float:
    return float(np.mean([stats.kl(one, other) for one, other in zip(truth, found, strict=True)]))


def _row(dtype: str, status: Mapping[str, Any], kl_added: float) -> dict[str, Any]:
    storage = status["storage"]
    if storage["format"] != {"bf16": "plain"}.get(dtype, dtype):
        raise SystemExit(f"the engine stores {storage['format']}, not {dtype}: nothing is measured")
    return {
        "dtype": dtype,
        "bytes_per_token": storage["bytes_per_token"],
        "bf16_bytes_per_token": storage["bf16_bytes_per_token"],
        "kl_added": kl_added,
    }


class _Run:
    """The same work in one engine."""

    def __init__(self, engine: Serving, lists: ListTokenizer, prompter: Prompter) -> None:
        self._engine, self._lists, self._prompter = engine, lists, prompter
        self._vectors: Vectors = {}
        self._queries: Vectors = {}
        self._keys: dict[str, tuple[str, ...]] = {}

    @classmethod
    async def start(cls, engine: Serving, vectors: Vectors, queries: Vectors) -> "_Run":
        tokenizer = await asyncio.to_thread(ChatTokenizer.load, engine.model_folder)
        lists = ListTokenizer.for_model(tokenizer)
        run = cls(engine, lists, Prompter(tokenizer, lists))
        run._vectors, run._queries = vectors, queries
        return run

    async def build(self, cases: Sequence[Case]) -> None:
        """Encodes all lists, again once the engine has calibrated itself on them."""
        head = self._prompter.with_memory(
            cases[0],
            ITEMS,
            self._vectors[cases[0].pool.name],
            self._queries[cases[0].pool.name],
        ).head
        await send_build(
            self._engine.client, (*head, head[-1]), tag=tenant_tag(TENANT), prefix_end=len(head)
        )
        for case in cases:
            await self._build(case.pool)
        await self._forget()
        for case in cases:
            await self._build(case.pool)

    async def build_again(self, cases: Sequence[Case]) -> None:
        """Encodes all lists beside each other."""
        await self._forget()
        await asyncio.gather(*(self._build(case.pool) for case in cases))

    async def _forget(self) -> None:
        await self._engine.client.delete([k for keys in self._keys.values() for k in keys if k])

    async def _build(self, pool: Pool) -> None:
        built = await build(
            self._engine.client,
            self._lists,
            pool,
            self._vectors[pool.name],
            WindowLimits().encode_policy,
            frozenset(),
        )
        self._keys[pool.name] = built.keys

    async def answers(self, cases: Sequence[Case]) -> Answers:
        """What injection makes of each case's right answer."""
        found = []
        for case in cases:
            prompt = self._prompter.with_memory(
                case, ITEMS, self._vectors[case.pool.name], self._queries[case.pool.name]
            )
            keys = self._keys[case.pool.name]
            params = inject_params(
                self._engine.client.secret,
                request_id=f"b{secrets.token_hex(8)}",
                salt=tenant_tag(TENANT),
                items=[keys[n] for n in prompt.chosen],
            )
            answer = self._prompter.answer(case.answer)
            logprobs, report = await self._engine.score(prompt.ids, answer, params)
            if report.get("reason"):
                raise SystemExit(f"a list was not injected whole ({report['reason']}): no figures")
            found.append(logprobs)
        return found


if __name__ == "__main__":
    main()
