"""Is injected memory as good as its text, on the model that is served? A short check by requests.

Owns the requests. Forces an answer token by token: each position is a request of its own for one
token behind the answer so far, with memory as text, with all but the best facts injected, and with
all injected; so nothing but the engine's public API is needed. Invariant: it leaves nothing in the
bank, and uses a tenant of its own that no memory belongs to.
"""

import asyncio
import secrets
import time
from collections.abc import Sequence
from typing import Any

from inferscale.protocol.engine import inject_params
from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.build.window import WindowLimits, plan_window
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.compose.order import suffix_items
from inferscale_sidecar.core import BuildItem, Tenant
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.engine.tokenizer import ChatTokenizer
from inferscale_sidecar.errors import Conflict, Unsupported
from inferscale_sidecar.service.quality_cases import ITEMS, Case, made_up
from inferscale_sidecar.service.quality_figures import Position, QualityFigures, judge

TOP = 20
AT_ONCE = 4
SUFFIX = suffix_items(ITEMS)
"""What `fidelity="balanced"` leaves to prefill of so many facts, at most."""


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
        self._facts, self._cases = made_up()
        self._keys: dict[int, str] = {}
        self._stored: set[str] = set()
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._declined: set[str | None] = set()

    async def run(self) -> QualityFigures:
        try:
            await self._build()
            found = await asyncio.gather(*(self._case(case) for case in self._cases))
        finally:
            if self._stored:
                await self._engine.delete(sorted(self._stored))
        if self._declined:
            reasons = ", ".join(sorted(map(str, self._declined)))
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

    async def _case(self, case: Case) -> list[Position]:
        prompt, answer = self._prompt(case), self._tokenizer.encode(case.answer)
        needle = case.answer.rindex(case.needle)
        text_salt, balanced_salt, fast_salt = (secrets.token_hex(16) for _ in range(3))
        found = []
        for n, (start, end) in enumerate(answer.offsets):
            ids = [*prompt, *answer.ids[:n]]
            async with self._gate:
                position = Position(
                    is_needle=start <= needle < end,
                    token=f"token_id:{answer.ids[n]}",
                    text=await self._top(ids, text_salt),
                    balanced=await self._top(ids, balanced_salt, case.order[:-SUFFIX]),
                    fast=await self._top(ids, fast_salt, case.order),
                )
            found.append(position)
        return found

    def _prompt(self, case: Case) -> list[int]:
        frame = self._lists.frame
        block = frame.render([self._facts[n] for n in case.order])
        if not self._tokenizer.has_chat_template:
            text = frame.prepend(f"Question: {case.question}\nAnswer: ", block)
            return [*self._tokenizer.leading_ids(), *self._tokenizer.encode(text).ids]
        user = {"role": "user", "content": case.question}
        messages = frame.place([user], block, placement=self._lists.placement)
        return list(self._tokenizer.encode(self._tokenizer.render(messages)).ids)

    async def _top(
        self, ids: Sequence[int], salt: str, injected: Sequence[int] = ()
    ) -> dict[str, float]:
        """Top log-probabilities of the next token, behind these facts injected, if any."""
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
        if injected:
            body["kv_transfer_params"] = inject_params(
                self._engine.secret,
                request_id=name,
                salt=tenant_tag(self._tenant),
                items=[self._keys[n] for n in injected],
                always=True,
            )
        answer = await self._engine.complete(body)
        if injected:
            report = await self._engine.report(name)
            reason = report.reason if report else "no report"
            self._declined |= {reason} - {None, "native_hit"}
        top: dict[str, float] = answer["choices"][0]["logprobs"]["top_logprobs"][0]
        return top
