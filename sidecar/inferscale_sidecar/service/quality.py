"""Is injected memory as good as its text, on the model that is served? A short check by requests.

Owns the made-up cases, the figures and the thresholds. Forces an answer token by token: each
position is a request of its own for one token, behind the answer so far, with memory as text and
with memory injected, so nothing but the engine's public API is needed. Invariant: it leaves nothing
in the bank, and uses a tenant of its own that no memory belongs to.
"""

import asyncio
import math
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inferscale.protocol.engine import inject_params
from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.build.window import WindowLimits, plan_window
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.core import BuildItem, Tenant
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.engine.tokenizer import ChatTokenizer
from inferscale_sidecar.errors import Conflict, Unsupported

MAX_KL = 0.2
MIN_TOP1 = 0.85
MIN_KEPT = 0.8
"""Thresholds: mean KL(text ‖ injected) in nats, share of positions with the same best token, share
of the answers right with text that stay right. Policies that encode items alone miss all three on
every model measured (docs/quality.md); the shipped ones are far inside."""
MIN_RIGHT = 4
"""With fewer right answers from the text, `MIN_KEPT` says nothing and is not applied."""
CASES = 16
ITEMS = 16
TOP = 20
AT_ONCE = 4
_PEOPLE = ("Wren Quill", "Odile Farrow", "Bruno Tamm", "Yusuf Keld", "Petra Lorne", "Zadie Horne")
_KINDS = (
    ("{who} keeps the {x} in the attic.", "What does {who} keep in the attic?"),
    ("{who} works as a {x}.", "What does {who} work as?"),
    ("{who} grew up in {x}.", "Where did {who} grow up?"),
    ("{who} adopted a {x} last spring.", "What animal did {who} adopt last spring?"),
)
_VALUES = (
    ("violin", "ladder", "telescope", "saddle", "camera", "kite"),
    ("baker", "lawyer", "nurse", "carpenter", "pilot", "teacher"),
    ("Lisbon", "Cairo", "Oslo", "Lima", "Kyoto", "Dublin"),
    ("parrot", "goat", "hamster", "donkey", "turtle", "rabbit"),
)


@dataclass(frozen=True)
class QualityFigures:
    """What was measured. `passed` is None if nothing was injected, so that nothing could be."""

    passed: bool | None
    detail: str
    kl: float = math.nan
    top1: float = math.nan
    positions: int = 0
    text_right: int = 0
    injected_right: int = 0
    cases: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Case:
    question: str
    answer: str
    needle: str
    order: tuple[int, ...]


@dataclass(frozen=True)
class _Position:
    """One forced token: whether it is the one that matters, and what each arm would have said."""

    is_needle: bool
    token: str
    text: Mapping[str, float]
    injected: Mapping[str, float]


class QualityCheck:
    """See the module. One at a time.

    Args:
        engine: the served model.
        tokenizer, lists: of that model.
        limits: windows and encode policy, those that memories are built with.
    """

    def __init__(
        self, engine: Engine, tokenizer: ChatTokenizer, lists: ListTokenizer, limits: WindowLimits
    ) -> None:
        self._engine, self._tokenizer, self._lists = engine, tokenizer, lists
        self._limits = limits
        self._running = asyncio.Lock()

    @property
    def policy(self) -> str:
        """Name of the encode policy that is checked."""
        return self._limits.encode_policy.name

    @property
    def is_running(self) -> bool:
        return self._running.locked()

    async def run(self) -> QualityFigures:
        """Takes some seconds on a small model. Changes nothing.

        Raises:
            Conflict: a check is running.
            Unsupported: injection is off for a reason that this check cannot judge.
            EngineUnavailable: the engine is down.
        """
        if self.is_running:
            raise Conflict("a quality check is running; wait for it to end")
        async with self._running:
            if not self._engine.can_inject:
                raise Unsupported("injection is off, so its quality cannot be measured")
            started = time.perf_counter()
            figures = await _Run(self._engine, self._tokenizer, self._lists, self._limits).run()
            seconds = round(time.perf_counter() - started, 1)
            return QualityFigures(**{**figures.__dict__, "seconds": seconds})


class _Run:
    """The check itself: facts built once, then every position of every case under both arms."""

    def __init__(
        self, engine: Engine, tokenizer: ChatTokenizer, lists: ListTokenizer, limits: WindowLimits
    ) -> None:
        self._engine, self._tokenizer, self._lists = engine, tokenizer, lists
        self._limits = limits
        self._tenant = Tenant("quality-check", "quality-check", secrets.token_bytes(32))
        self._facts, self._cases = _made_up()
        self._keys: dict[int, str] = {}
        self._stored: set[str] = set()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._declined: set[str] = set()

    async def run(self) -> QualityFigures:
        try:
            await self._build()
            found = await asyncio.gather(*(self._case(case) for case in self._cases))
        finally:
            if self._stored:
                await self._engine.delete(sorted(self._stored))
        if self._declined:
            reasons = ", ".join(sorted(self._declined))
            return QualityFigures(None, f"not measured: memory was not injected ({reasons})")
        return judge([position for positions in found for position in positions])

    async def _build(self) -> None:
        items = [
            BuildItem(str(n), 1, self._tenant.id, "user:quality-check", fact)
            for n, fact in enumerate(self._facts)
        ]
        head, done = self._lists.split(self._facts).head_end, 0
        while done < len(items):
            prompt = plan_window(
                items[done:],
                items[max(0, done - self._limits.encode_policy.count("recent")) : done],
                tenant=self._tenant,
                model=self._engine.model,
                lists=self._lists,
                limits=self._limits,
            )
            if not prompt.planned:
                raise Unsupported("the made-up facts cannot be encoded with this tokenizer")
            stored = await send_build(
                self._engine,
                prompt.ids,
                tag=tenant_tag(self._tenant),
                captures=prompt.captures,
                prefix_end=head,
            )
            self._stored |= stored
            self._keys |= {int(p.item.memory_id): p.capture.key for p in prompt.planned}
            done = len(items) - len(prompt.left_over)

    async def _case(self, case: _Case) -> list[_Position]:
        prompt, answer = self._prompt(case), self._tokenizer.encode(case.answer)
        needle = case.answer.rindex(case.needle)
        text_salt, injected_salt = secrets.token_hex(16), secrets.token_hex(16)
        found = []
        for n, (start, end) in enumerate(answer.offsets):
            ids = [*prompt, *answer.ids[:n]]
            async with self._gate:
                text, _ = await self._top(ids, text_salt)
                injected, reason = await self._top(ids, injected_salt, case)
            if reason not in (None, "native_hit"):
                self._declined.add(reason)
            token = f"token_id:{answer.ids[n]}"
            found.append(_Position(start <= needle < end, token, text, injected))
        return found

    def _prompt(self, case: _Case) -> list[int]:
        frame = self._lists.frame
        block = frame.render([self._facts[n] for n in case.order])
        if not self._tokenizer.has_chat_template:
            text = frame.prepend(f"Question: {case.question}\nAnswer: ", block)
            return [*self._tokenizer.leading_ids(), *self._tokenizer.encode(text).ids]
        user = {"role": "user", "content": case.question}
        messages = frame.place([user], block, placement=self._lists.placement)
        return list(self._tokenizer.encode(self._tokenizer.render(messages)).ids)

    async def _top(
        self, ids: Sequence[int], salt: str, case: _Case | None = None
    ) -> tuple[dict[str, float], str | None]:
        """Top log-probabilities of the next token; with a case, behind its facts injected."""
        name = f"quality_{secrets.token_hex(12)}"
        body: dict[str, Any] = {
            "model": self._engine.model,
            "prompt": list(ids),
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": TOP,
            "return_tokens_as_token_ids": True,
            "cache_salt": salt,
        }
        if case:
            body["kv_transfer_params"] = inject_params(
                self._engine.secret,
                request_id=name,
                salt=tenant_tag(self._tenant),
                items=[self._keys[n] for n in case.order],
                always=True,
            )
        answer = await self._engine.complete(body)
        report = await self._engine.report(name) if case else None
        reason = (report.reason if report else "no report") if case else None
        return answer["choices"][0]["logprobs"]["top_logprobs"][0], reason


def judge(positions: Sequence[_Position]) -> QualityFigures:
    """Figures and verdict over all positions of all cases."""
    kl = sum(coarse_kl(p.text, p.injected) for p in positions) / len(positions)
    same = [_best(p.text) == _best(p.injected) for p in positions]
    top1 = sum(same) / len(same)
    needles = [p for p in positions if p.is_needle]
    right = [p for p in needles if _best(p.text) == p.token]
    kept = [p for p in right if _best(p.injected) == p.token]
    is_good = kl <= MAX_KL and top1 >= MIN_TOP1
    if len(right) >= MIN_RIGHT:
        is_good = is_good and len(kept) >= MIN_KEPT * len(right)
    detail = (
        f"KL to the text {kl:.3f} (at most {MAX_KL}), same best token {top1:.1%} (at least "
        f"{MIN_TOP1:.0%}), {len(kept)} of {len(right)} right answers kept (at least {MIN_KEPT:.0%})"
    )
    return QualityFigures(
        passed=is_good,
        detail=detail,
        kl=round(kl, 4),
        top1=round(top1, 4),
        positions=len(positions),
        text_right=len(right),
        injected_right=len(kept),
        cases=len(needles),
    )


def coarse_kl(text: Mapping[str, float], injected: Mapping[str, float]) -> float:
    """KL(text ‖ injected) in nats over the text's top tokens and one bucket for the rest.

    Merging tokens can only lower a KL divergence, and a token that the other run does not list
    counts with the least it lists, so this is a lower bound.
    """
    floor = min(injected.values())
    total, left_text, left_injected = 0.0, 1.0, 1.0
    for token, log_p in text.items():
        log_q = injected.get(token, floor)
        total += math.exp(log_p) * (log_p - log_q)
        left_text -= math.exp(log_p)
        left_injected -= math.exp(log_q)
    left_text, left_injected = max(left_text, 1e-9), max(left_injected, 1e-9)
    return max(0.0, total + left_text * math.log(left_text / left_injected))


def _best(top: Mapping[str, float]) -> str:
    return max(top, key=lambda token: top[token])


def _made_up() -> tuple[list[str], list[_Case]]:
    """Facts as they are built, and questions about some of them among others in another order."""
    draw = random.Random(7)
    told = [
        (fact.format(who=who, x=value), question.format(who=who), value)
        for (fact, question), values in zip(_KINDS, _VALUES, strict=True)
        for who, value in zip(_PEOPLE, values, strict=True)
    ]
    draw.shuffle(told)
    facts = [fact for fact, _, _ in told]
    cases = []
    for n in draw.sample(range(len(told)), CASES):
        others = draw.sample([m for m in range(len(told)) if m != n], ITEMS - 1)
        fact, question, value = told[n]
        order = tuple(draw.sample([n, *others], ITEMS))
        cases.append(_Case(question, answer=fact, needle=value, order=order))
    return facts, cases
