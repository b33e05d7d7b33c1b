"""Runs every case under every arm in one engine, and keeps one figure per case and arm.

Owns the order of work. Arms of a case run beside each other; nothing is timed while anything else
runs. Invariant: a figure of an arm is against the stuffed text of the same token ids.
"""

import asyncio
import secrets
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from benchmarks.quality import stats
from benchmarks.quality.cases import Case
from benchmarks.quality.encode import TENANT, Built, build
from benchmarks.quality.prompts import Prompt, Prompter, candidates
from benchmarks.quality.serving import Serving

from inferscale.protocol.engine import inject_params
from inferscale_sidecar.build.policy import EncodePolicy
from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.compose.order import exact_items

CASES_AT_ONCE = 2
TEXT = "text"
"""The arm that is the stuffed text once more, found in vLLM's own prefix cache: the noise floor."""
BALANCED = -1
"""In place of `r`: what `fidelity="balanced"` leaves to prefill, which differs by question."""


@dataclass(frozen=True, order=True)
class Arm:
    """An encode policy (its name) with `k` facts, of which the best `r` are left to prefill.

    `r` may be `BALANCED`.
    """

    policy: str
    k: int
    r: int


@dataclass(frozen=True)
class Chosen:
    """One case with answers to choose from: right with the stuffed text, right with the arm; and
    how far the arm is from the text at the positions of the right answer.
    """

    stuffed: bool
    arm: bool
    kl: float
    top1: float


@dataclass
class Figures:
    """What was measured.

    Attributes:
        scored: by arm, one entry per question scored by likelihood.
        chosen: by set and arm, one entry per case.
        built: by policy, one entry per pool.
        ttft_ms: by (k, r); r = k is stuffed text.
    """

    scored: dict[Arm, list[stats.Scored]] = field(default_factory=dict)
    chosen: dict[tuple[str, Arm], list[Chosen]] = field(default_factory=dict)
    built: dict[str, list[Built]] = field(default_factory=dict)
    ttft_ms: dict[tuple[int, int], float] = field(default_factory=dict)


class Measurement:
    """One run.

    Args:
        serving: the engine.
        prompter, lists: of its model.
        vectors: facts' unit vectors by pool name.
        queries: questions' unit vectors by question.
        arms: what is compared.
    """

    def __init__(
        self,
        serving: Serving,
        prompter: Prompter,
        lists: ListTokenizer,
        *,
        vectors: Mapping[str, np.ndarray],
        queries: Mapping[str, np.ndarray],
        arms: Sequence[Arm],
    ) -> None:
        self._serving, self._prompter, self._lists = serving, prompter, lists
        self._vectors, self._queries, self._arms = vectors, queries, arms
        self._keys: dict[tuple[str, str], tuple[str, ...]] = {}
        self.figures = Figures()

    async def run(self, cases: Sequence[Case], *, timed: int, seconds: float) -> None:
        """Encodes and scores list after list, until all is done or the time is up.

        Args:
            cases: scored list by list, so that a short run covers few lists well.
            timed: so many questions of the first list are timed as well, before anything else.
            seconds: no other question is begun after so long.
        """
        by_pool: dict[str, list[Case]] = {}
        for case in cases:
            by_pool.setdefault(case.pool.name, []).append(case)
        deadline = time.monotonic() + seconds
        await self._warm(cases[0])
        for n, own in enumerate(by_pool.values()):
            if time.monotonic() > deadline:
                return
            await self._build(own)
            if n == 0:
                await self.time(own[:timed])
            await self._score(own, deadline)

    async def _warm(self, case: Case) -> None:
        """The tokens before the first fact are the same in all prompts."""
        head = self._prompt(case, max(arm.k for arm in self._arms)).head
        await send_build(
            self._serving.client, (*head, head[-1]), tag=tenant_tag(TENANT), prefix_end=len(head)
        )

    async def _build(self, cases: Sequence[Case]) -> None:
        """Encodes the list of these cases under every policy."""
        pool = cases[0].pool
        largest = max(arm.k for arm in self._arms)
        wanted = frozenset(n for case in cases for n in self._prompt(case, largest).chosen)
        for policy in dict.fromkeys(arm.policy for arm in self._arms):
            built = await build(
                self._serving.client,
                self._lists,
                pool,
                self._vectors[pool.name],
                EncodePolicy.parse(policy),
                wanted,
            )
            self._keys[policy, pool.name] = built.keys
            self.figures.built.setdefault(policy, []).append(built)

    async def _score(self, cases: Sequence[Case], deadline: float) -> None:
        """By likelihood, or by choosing if there are wrong answers."""
        gate = asyncio.Semaphore(CASES_AT_ONCE)

        async def one(case: Case) -> None:
            async with gate:
                if time.monotonic() < deadline:
                    await (self._choose(case) if case.wrong else self._likelihood(case))

        await asyncio.gather(*(one(case) for case in cases))

    async def time(self, cases: Sequence[Case]) -> None:
        """Time to first token of each (k, r), one request at a time, arms in turns; medians."""
        policy = self._arms[0].policy
        pairs = sorted({(arm.k, arm.r) for arm in self._arms} | {(a.k, a.k) for a in self._arms})
        found: dict[tuple[int, int], list[float]] = {pair: [] for pair in pairs}
        for case in cases:
            for k, r in pairs:
                prompt = self._prompt(case, k)
                params = self._params(case, prompt, Arm(policy, k, r))[0] if r < k else None
                found[k, r].append(await self._serving.ttft_ms(prompt.ids, params))
        self.figures.ttft_ms = {pair: statistics.median(ms) for pair, ms in found.items() if ms}

    def _prompt(self, case: Case, k: int) -> Prompt:
        vectors = self._vectors[case.pool.name]
        return self._prompter.with_memory(case, k, vectors, self._queries[case.question])

    def _params(self, case: Case, prompt: Prompt, arm: Arm) -> tuple[dict[str, object], int]:
        """What makes the request inject, and the number of facts that it leaves to prefill."""
        keys = self._keys[arm.policy, case.pool.name]
        left = exact_items(prompt.items(case), "balanced") if arm.r == BALANCED else arm.r
        params = inject_params(
            self._serving.client.secret,
            request_id=f"q{secrets.token_hex(8)}",
            salt=tenant_tag(TENANT),
            items=[keys[n] for n in prompt.chosen[: len(prompt.chosen) - left]],
        )
        return params, left

    async def _likelihood(self, case: Case) -> None:
        answer = self._prompter.answer(case.answer)
        bare, _ = await self._serving.score(self._prompter.without_memory(case), answer)
        for k in sorted({arm.k for arm in self._arms}):
            prompt, salt = self._prompt(case, k), secrets.token_hex(16)
            truth, _ = await self._serving.score(prompt.ids, answer, salt=salt)
            arms = [arm for arm in self._arms if arm.k == k]
            asked = [self._params(case, prompt, arm) for arm in arms]
            requests = [self._serving.score(prompt.ids, answer, params) for params, _ in asked]
            again = self._serving.score(prompt.ids, answer, salt=salt)
            results = await asyncio.gather(*requests, again)
            suffixes = [*(left for _, left in asked), k]
            for arm, left, (got, _) in zip(
                [*arms, Arm(TEXT, k, k)], suffixes, results, strict=True
            ):
                scored = stats.Scored(
                    cluster=case.pool.name,
                    none=stats.nll(bare, answer),
                    stuffed=stats.nll(truth, answer),
                    arm=stats.nll(got, answer),
                    kl=stats.kl(truth, got),
                    top1=stats.top1(truth, got),
                    suffix=left,
                )
                self.figures.scored.setdefault(arm, []).append(scored)

    async def _choose(self, case: Case) -> None:
        """Which answer has the highest likelihood, with the smallest `k` only."""
        k = min(arm.k for arm in self._arms)
        prompt = self._prompt(case, k)
        right, truth = await self._answer(case, prompt, None)
        for arm in [arm for arm in self._arms if arm.k == k]:
            got, other = await self._answer(case, prompt, arm)
            chosen = Chosen(right, got, stats.kl(truth, other), stats.top1(truth, other))
            self.figures.chosen.setdefault((case.subject, arm), []).append(chosen)

    async def _answer(self, case: Case, prompt: Prompt, arm: Arm | None) -> tuple[bool, np.ndarray]:
        """Whether the right answer is likeliest, and the logprobs of its positions."""
        salt = secrets.token_hex(16)  # one prompt for all answers: later ones are native hits
        sums, kept = [], []
        for text in candidates(case):
            answer = self._prompter.answer(text)
            params = self._params(case, prompt, arm)[0] if arm else None
            got, _ = await self._serving.score(prompt.ids, answer, params, salt=salt)
            sums.append(-stats.nll(got, answer) * len(answer))
            kept.append(got)
        return int(np.argmax(sums)) == 0, kept[0]
