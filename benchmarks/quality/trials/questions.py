"""What a series is asked: questions, lists of facts, vectors, served lists that are given."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from benchmarks.quality.cases import Case, Pool, locomo
from benchmarks.quality.prompts import SYSTEM
from benchmarks.quality.trials import grains

from inferscale_sidecar.embed.sentence_transformer import SentenceTransformerEmbedder
from inferscale_sidecar.service.quality_cases import made_up


@dataclass(frozen=True)
class Asked:
    """See the module.

    Attributes:
        cases: questions; a case's number is its place here.
        vectors: unit vectors of facts by pool, `[facts, dim]`.
        queries: unit vectors of questions.
        system: the system message.
        served: served lists by number of the case, where retrieval does not choose them.
        sources: by fact, the turns of its session.
    """

    cases: Sequence[Case]
    vectors: Mapping[str, np.ndarray]
    queries: Mapping[str, np.ndarray]
    system: str = SYSTEM
    served: Mapping[int, list[int]] = field(default_factory=dict)
    sources: Mapping[str, list[str]] = field(default_factory=dict)


async def load(series: str, options: argparse.Namespace) -> Asked:
    """The questions of a series; `duplicates` are the facts of `doctor --quality`."""
    if series == "duplicates":
        facts, made = made_up()
        pool = Pool("made-up", tuple(facts))
        cases = [Case("made_up", pool, one.question, one.answer) for one in made]
        served = {n: list(one.order) for n, one in enumerate(made)}
        return Asked(cases, *await _embedded(cases), system="", served=served)
    if series == "grains":
        cases = grains.cut(options.data, options.questions, options.conversations)
        return Asked(cases, *await _embedded(cases), sources=grains.sources(options.data))
    cases = locomo(options.data, options.questions, conversations=options.conversations)
    return Asked(cases, *await _embedded(cases))


async def _embedded(cases: Sequence[Case]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    embedder = SentenceTransformerEmbedder.load()
    pools = {case.pool.name: case.pool for case in cases}
    vectors = {name: await embedder.embed(pool.facts) for name, pool in pools.items()}
    texts = list(dict.fromkeys(case.question for case in cases))
    queries = dict(zip(texts, await embedder.embed(texts), strict=True))
    await embedder.close()
    return vectors, queries
