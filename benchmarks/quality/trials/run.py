"""A series in one engine: every arm is asked the same questions; one record per question and arm.

Owns the order of work and what is built for it. Figures are by position of the answer; `report`
makes tables of them. Invariant: an injected arm is beside the text of its own token ids, an arm of
text beside the usual text.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import _output
from benchmarks.quality import stats
from benchmarks.quality.cases import Case
from benchmarks.quality.encode import AT_ONCE, TENANT
from benchmarks.quality.prompts import Prompter
from benchmarks.quality.serving import Serving
from benchmarks.quality.trials import grains, layouts, orders
from benchmarks.quality.trials.forge import Forge
from benchmarks.quality.trials.layouts import Window
from benchmarks.quality.trials.questions import Asked
from benchmarks.quality.trials.series import BASE, Arm

from inferscale.protocol.engine import Capture, inject_params
from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.compose.keys import tenant_tag

TAG = tenant_tag(TENANT)
QUESTIONS_AT_ONCE = 3


@dataclass(frozen=True)
class Frame:
    """How memory is shown."""

    prompter: Prompter
    lists: ListTokenizer


class Trial:
    """See the module.

    Args:
        serving: the engine.
        frames: its prompts, by the names of `frames.FRAMES`.
        forge: of its bank.
        asked: what is asked of which facts.
        write: takes the records.
    """

    def __init__(
        self,
        serving: Serving,
        frames: Mapping[str, Frame],
        forge: Forge,
        asked: Asked,
        write: Callable[[dict[str, Any]], None],
    ) -> None:
        self._serving, self._frames, self._forge = serving, frames, forge
        self._asked, self._write = asked, write
        self._keys: dict[tuple[str, str], list[str]] = {}
        self._gate, self._alone = asyncio.Semaphore(AT_ONCE), asyncio.Lock()
        self._built: set[str] = set()

    async def run(self, arms: Sequence[Arm], k: int, deadline: float) -> None:
        """All arms on all questions, list after list; nothing is begun after the deadline."""
        for frame in self._frames.values():
            head = frame.prompter.head()
            await send_build(self._serving.client, (*head, head[-1]), tag=TAG, prefix_end=len(head))
        by_pool: dict[str, list[tuple[int, Case]]] = {}
        for number, case in enumerate(self._asked.cases):
            by_pool.setdefault(case.pool.name, []).append((number, case))
        for name, own in by_pool.items():
            if time.monotonic() > deadline:
                return
            case = own[0][1]
            mine = [arm for arm in arms if arm.grain in ("", case.subject)]
            for recipe in dict.fromkeys(a.recipe for a in mine if a.recipe and not a.per_case):
                await self._prepare(recipe, case)
            say(f"{name}: encoded")
            for first in range(0, len(own), QUESTIONS_AT_ONCE):
                if time.monotonic() < deadline:
                    some = own[first : first + QUESTIONS_AT_ONCE]
                    await asyncio.gather(*(self._ask(n, c, mine, k) for n, c in some))
            say(f"{name}: done")

    async def _prepare(self, recipe: str, case: Case) -> list[str]:
        """Builds a list of facts, or makes it of others; keys by fact."""
        pool = case.pool
        if (recipe, pool.name) in self._keys:
            return self._keys[recipe, pool.name]
        keys = [_key(recipe, pool.name, n) for n in range(len(pool.facts))]
        kind, _, rest = recipe.partition(":")
        if kind == "mean":
            sources = [await self._prepare(part, case) for part in rest.split(",")]
            for n, key in enumerate(keys):
                self._forge.mean([own[n] for own in sources], key)
        elif kind[0] == "k" and rest:
            source = await self._prepare(rest, case)
            for n, key in enumerate(keys):
                self._forge.scaled(source[n], key, k=float(kind[1:]))
        else:
            vectors, sources_of = self._asked.vectors[pool.name], self._asked.sources
            name, _, how = recipe.partition("@")
            windows = layouts.windows(name, pool.facts, vectors, sources_of)
            await self._build(windows, dict(enumerate(keys)), pool.facts, how)
        self._keys[recipe, pool.name] = keys
        return keys

    async def _build(
        self,
        windows: Sequence[Window],
        keys: Mapping[int, str],
        facts: Sequence[str],
        how: str = "",
    ) -> None:
        """Encodes facts under keys.

        Args:
            how: `head`: behind the tokens that stand before a served list; or the name of a frame.
        """
        salt, frame = secrets.token_hex(16), self._frames.get(how, self._frames[""])

        async def send(window: Window) -> None:
            tokens = frame.lists.split([*window.before, *(facts[n] for n in window.new)])
            head = frame.prompter.head() if how == "head" else tokens.ids[: tokens.head_end]
            moved = len(head) - tokens.head_end
            places = tokens.items[len(window.before) :]
            slices = [
                Capture(keys[n], at.start + moved, at.end + moved)
                for n, at in zip(window.new, places, strict=True)
            ]
            ids = (*head, *tokens.ids[tokens.head_end :])
            async with self._gate:
                stored = await send_build(
                    self._serving.client, ids, tag=TAG, captures=slices, cache_salt=salt
                )
            if len(stored) < len(slices):
                raise RuntimeError(f"the bank kept {len(stored)} of {len(slices)} items")

        await asyncio.gather(*(send(window) for window in windows))

    async def _ask(self, number: int, case: Case, arms: Sequence[Arm], k: int) -> None:
        """One question under all arms."""
        vectors, query = self._asked.vectors[case.pool.name], self._asked.queries[case.question]
        prompter = self._frames[""].prompter
        answer = prompter.answer(case.answer)
        none, _ = await self._serving.score(prompter.without_memory(case), answer)
        size = grains.items_of(case.subject, k)
        usual = self._asked.served.get(number) or orders.best_last(vectors, query, size)
        names = dict.fromkeys(["best_last", *(arm.order for arm in arms)])
        lists = {order: orders.ordered(order, usual, vectors) for order in names}
        ids = {order: self._ids(case, order, chosen) for order, chosen in lists.items()}
        texts = {o: (await self._serving.score(i, answer))[0] for o, i in ids.items()}

        async def one(arm: Arm) -> None:
            truth, got = texts["best_last"], texts[arm.order]
            if arm.recipe:
                truth = got
                params = await self._params(arm, case, lists[arm.order], number)
                got, report = await self._serving.score(ids[arm.order], answer, params)
                if report.get("reason"):
                    raise RuntimeError(f"{arm.name} was not injected: {report['reason']}")
            about = {"arm": arm.name, "pool": case.pool.name, "question": number}
            known = {"none": none, "stuffed": truth, "usual": texts["best_last"], "nll": got}
            nlls = {name: stats.nll(logprobs, answer) for name, logprobs in known.items()}
            self._write({**about, **nlls, **stats.by_position(truth, got, answer)})

        await asyncio.gather(*(one(arm) for arm in arms if number < arm.questions))

    def _ids(self, case: Case, order: str, chosen: Sequence[int]) -> tuple[int, ...]:
        return self._frames.get(order, self._frames[""]).prompter.of(case, chosen)

    async def _params(
        self, arm: Arm, case: Case, chosen: Sequence[int], number: int
    ) -> dict[str, Any]:
        keys: Mapping[int, str]
        if arm.per_case:
            keys = await self._of_case(arm, case, chosen, number)
        else:
            keys = dict(enumerate(self._keys[arm.recipe, case.pool.name]))
        left = orders.left(arm, chosen, self._asked.vectors[case.pool.name])
        return inject_params(
            self._serving.client.secret,
            request_id=f"t{secrets.token_hex(8)}",
            salt=TAG,
            items=[keys[n] for n in chosen[: len(chosen) - left]],
            always=True,
        )

    async def _of_case(
        self, arm: Arm, case: Case, chosen: Sequence[int], number: int
    ) -> dict[int, str]:
        """Keys by fact of an arm that is built for one question."""
        pool, (kind, _, detail) = case.pool, arm.per_case.partition(":")
        if kind == "front":
            return await self._front(case, chosen, [int(n) for n in detail.split(",")])
        what = kind if kind == "exact" else arm.per_case
        mine = {n: _key(what, arm.served_head, number, pool.name, n) for n in chosen}
        windows = [Window((), tuple(chosen))]
        if kind == "sliding":
            windows = layouts.sliding(pool.facts, chosen, int(detail))
        async with self._alone:
            if mine[chosen[0]] not in self._built:
                self._built.add(mine[chosen[0]])
                await self._build(windows, mine, pool.facts, "head" * arm.served_head)
        if kind == "sliding":
            return mine
        first, last = (int(n) for n in detail.split("-"))
        return self._mixed(chosen, pool.name, mine, last, first)

    async def _front(
        self, case: Case, chosen: Sequence[int], lines: Sequence[int]
    ) -> dict[int, str]:
        """The first items behind so many facts before them in time, each built alone."""
        name, facts = case.pool.name, case.pool.facts
        own = {n: _key("front", name, n, before) for n, before in zip(chosen, lines, strict=False)}
        async with self._alone:
            for (n, key), before in zip(own.items(), lines, strict=True):
                if key not in self._built:
                    self._built.add(key)
                    await self._build([layouts.behind_earlier(facts, n, before)], {n: key}, facts)
        return self._mixed(chosen, name, own, len(lines))

    def _mixed(
        self, chosen: Sequence[int], pool: str, own: Any, last: int, first: int = 0
    ) -> dict[int, str]:
        """Keys of `own` for places first to last of a served list, the shipped ones elsewhere."""
        base = self._keys[BASE, pool]
        return {n: own[n] if first <= place < last else base[n] for place, n in enumerate(chosen)}


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def say(text: str) -> None:
    """Progress, to stderr."""
    _output.note(f"{time.strftime('%H:%M:%S')} {text}")
