"""What new facts have to do with what the scope holds: the same, a replacement, or something new.

Owns the decision, not the writing. Invariants: the whole scope is compared with, not its newest
rows; code decides what is the same, an LLM at most what is outdated; nothing outdated is lost.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from inferscale_sidecar.compose.keys import cache_salt
from inferscale_sidecar.core import Hit, Scope, Tenant
from inferscale_sidecar.extract import ExtractionFailed
from inferscale_sidecar.extract.compare import is_negation, is_restatement
from inferscale_sidecar.extract.judge import Judge, Pair
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.store.records import FactDraft, Target

log = logging.getLogger(__name__)

MIN_SAME = 0.8
"""Cosine from which the words of two facts are compared."""
MIN_RELATED = 0.5
"""Cosine from which an LLM is asked whether a fact replaces another one."""
_CANDIDATES = 8
_JUDGED = 4


class Reconciler:
    """Compares facts with memories.

    Args:
        searcher: finds the memories that are like a fact.
        judge: tells what is outdated; None to go by rules only.
    """

    def __init__(self, searcher: Searcher, judge: Judge | None = None) -> None:
        self._searcher = searcher
        self._judge = judge

    async def reconcile(
        self, tenant: Tenant, scope: Scope, facts: Sequence[FactDraft]
    ) -> list[FactDraft]:
        """The facts, less restatements of each other, each with what it restates or replaces."""
        facts = _without_restatements(facts)
        found = [await self._compare(tenant, scope, fact) for fact in facts]
        await self._ask(tenant, found)
        return [
            replace(f.fact, same_as=f.same_as, supersedes=tuple(f.replaced.values())) for f in found
        ]

    async def _compare(self, tenant: Tenant, scope: Scope, fact: FactDraft) -> "_Compared":
        found = _Compared(fact)
        hits = await self._searcher.alike(tenant, scope, fact.draft.vector, k=_CANDIDATES)
        for hit in hits:
            old = hit.memory
            if old.kind == "turn" or old.text == fact.draft.text:
                continue
            if hit.score >= MIN_SAME and is_restatement(fact.draft.text, old.text):
                found.same_as = found.same_as or _target(hit)
            elif is_negation(fact.draft.text, old.text):
                found.replaced[old.id] = _target(hit)
            elif hit.score >= MIN_RELATED and old.kind == "fact":
                found.related.append(hit)
        return found

    async def _ask(self, tenant: Tenant, found: Sequence["_Compared"]) -> None:
        asked = [(f, hit) for f in found if not f.same_as for hit in f.related[:_JUDGED]]
        if self._judge is None or not asked:
            return
        pairs = [Pair(f.fact.draft.text, hit.memory.text) for f, hit in asked]
        try:
            outdated = await self._judge.outdated(pairs, salt=cache_salt(tenant, None))
        except ExtractionFailed as error:
            log.warning("contradictions were not looked for: %s", error.message)
            return
        for at in outdated:
            compared, hit = asked[at]
            compared.replaced[hit.memory.id] = _target(hit)


@dataclass
class _Compared:
    fact: FactDraft
    same_as: Target | None = None
    replaced: dict[str, Target] = field(default_factory=dict)
    related: list[Hit] = field(default_factory=list)


def _target(hit: Hit) -> Target:
    return Target(hit.memory.id, hit.memory.version)


def _without_restatements(facts: Sequence[FactDraft]) -> list[FactDraft]:
    """Of facts that say the same the first, with the messages of all."""
    kept: list[FactDraft] = []
    for fact in facts:
        for at, other in enumerate(kept):
            cosine = float(np.dot(fact.draft.vector, other.draft.vector))
            if cosine >= MIN_SAME and is_restatement(fact.draft.text, other.draft.text):
                sources = tuple(sorted({*other.sources, *fact.sources}))
                kept[at] = replace(other, sources=sources)
                break
        else:
            kept.append(fact)
    return kept
