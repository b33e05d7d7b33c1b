"""Start-up self-test through the public path: does injection equal a native prefix hit?

Owns the experiment and its verdict. The connector checks the layers' bytes by itself; this checks
that requests, signatures, the bank and the scheduler together give the right logits. Invariant: it
leaves nothing behind, and if it fails, injection is off and the service goes on.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inferscale.protocol.engine import (
    PARAMS_FIELD,
    Capture,
    EngineReport,
    build_params,
    inject_params,
    item_key,
)
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.engine.logprobs import Logprobs, difference
from inferscale_sidecar.engine.settle import settled
from inferscale_sidecar.engine.tokenizer import ChatTokenizer
from inferscale_sidecar.errors import EngineUnavailable, SidecarError

log = logging.getLogger(__name__)

MIN_TOKENS = 96
ITEM_TOKENS = 24
TAIL_TOKENS = 7
GREEDY_TOKENS = 8
TOP = 5
TOLERANCE = {"int8": 0.25, "k8v4": 1.0}
"""Nats that a compressed item may move a log-probability, beyond the backend's own spread. An item
in the model's own dtype may move none. int8 moves those of made-up tokens by up to 0.16."""
ATTEMPTS = 6
"""Requests in a batch with the test's own (an engine that comes back has users waiting) round its
logits differently, by up to 0.25 nat on CPU: an attempt that fails in company tells nothing."""
ALONE = 2
"""Attempts that must fail alone: a defect shows each time."""
_LINE = "Shelf {n} of the library holds {books} books and {letters} letters.\n"
_CHAT = (
    {"role": "system", "content": "Answer briefly.\n\n- one\n- two\n(end)"},
    {"role": "user", "content": "Grüße, 世界! What is  on the list?"},
)


@dataclass(frozen=True)
class SelfTestResult:
    """The verdict.

    Attributes:
        passed: None without a verdict: injection is off already, or the engine is busy.
        detail: one sentence for people.
        error: largest difference of log-probabilities, injected against native prefix hit.
        spread: the same, cold run against native prefix hit: what this backend itself shows.
        seconds: how long it took.
        is_busy: batches of the test held other requests as well, so it is to be repeated.
    """

    passed: bool | None
    detail: str
    error: float = math.nan
    spread: float = math.nan
    seconds: float = 0.0
    is_busy: bool = False


async def self_test(
    engine: Engine, tokenizer: ChatTokenizer, *, pause_s: float = 1.0
) -> SelfTestResult:
    """Runs the test; switches injection off if it fails, and leaves it on without a verdict.

    Args:
        engine: what is tested.
        tokenizer: the sidecar's copy of its tokenizer.
        pause_s: behind an attempt that other requests spoiled; doubled each time.

    Raises:
        EngineUnavailable: the engine went away meanwhile.
    """
    started = time.perf_counter()
    status = await engine.status()
    injection = status["injection"]
    if not injection["enabled"]:
        return SelfTestResult(None, f"not run: injection is off ({injection.get('reason')})")
    try:
        stored = (status.get("storage") or {}).get("format", "plain")
        tolerance = TOLERANCE.get(stored, 0.0)
        block_size = int(status["block_size"])
        result = await _run(engine, tokenizer, block_size, tolerance, pause_s)
    except EngineUnavailable:
        raise
    except SidecarError as error:
        result = SelfTestResult(False, f"could not be run: {error.message}")
    if result.passed is False:
        log.error("self-test failed, injection is switched off: %s", result.detail)
        await engine.set_injection(False, f"self-test: {result.detail}")
    return replace(result, seconds=time.perf_counter() - started)


async def _run(
    engine: Engine,
    tokenizer: ChatTokenizer,
    block_size: int,
    tolerance: float,
    pause_s: float,
) -> SelfTestResult:
    if problem := await rendering_differs(engine, tokenizer):
        return SelfTestResult(False, problem)
    size = -(-max(MIN_TOKENS, ITEM_TOKENS + 1) // block_size) * block_size
    lines = (_LINE.format(n=n, books=37 * n % 101, letters=53 * n % 89) for n in range(size // 4))
    text = tokenizer.encode("".join(lines)).ids  # nowhere the same: an item is found only once
    prompt = (*tokenizer.leading_ids(), *text)[: size + TAIL_TOKENS]
    failed_alone, wait_s = 0, 0.0
    for attempt in range(ATTEMPTS):
        await asyncio.sleep(wait_s)
        result = await _Experiment(engine, prompt, size, tolerance).run()
        failed_alone += not result.is_busy
        if result.passed or failed_alone == ALONE:
            return result
        wait_s = pause_s * 2**attempt if result.is_busy else 0.0
    log.warning("self-test: the engine is too busy for a verdict; it is to be repeated")
    return replace(result, passed=None, detail=f"the engine is busy, {result.detail}", is_busy=True)


async def rendering_differs(engine: Engine, tokenizer: ChatTokenizer) -> str | None:
    """Compares the local chat template with the engine's; a sentence if they disagree."""
    if not tokenizer.has_chat_template:
        return None
    ours = list(tokenizer.encode(tokenizer.render(_CHAT)).ids)
    theirs = await engine.tokenize({"model": engine.model, "messages": list(_CHAT)})
    if ours == theirs:
        return None
    return (
        "the engine renders chats differently from the sidecar's copy of the tokenizer "
        f"({len(theirs)} and {len(ours)} tokens); point both at the same model and chat template"
    )


class _Experiment:
    """The same tokens three times: cold, natively cached, and injected up to the same token."""

    def __init__(
        self, engine: Engine, prompt: Sequence[int], boundary: int, tolerance: float
    ) -> None:
        self._engine, self._prompt, self._boundary = engine, list(prompt), boundary
        self._start, self._tolerance = boundary - ITEM_TOKENS, tolerance
        self._tag = secrets.token_hex(16)
        context, item = self._prompt[: self._start], self._prompt[self._start : boundary]
        self._key = item_key(secrets.token_bytes(32), engine.model, "self-test", context, item)
        self._stored = [self._key]
        self._crowded_steps = 0

    async def run(self) -> SelfTestResult:
        salt = secrets.token_hex(16)
        try:
            await self._build()
            cold, _ = await self._generate(salt)
            native, _ = await self._generate(salt)
            injected, report = await self._generate(secrets.token_hex(16), inject=True)
        finally:
            await self._engine.delete(self._stored)
        return self._verdict(cold, native, injected, report)

    def _verdict(
        self, cold: Logprobs, native: Logprobs, injected: Logprobs, report: EngineReport | None
    ) -> SelfTestResult:
        if report is None or report.injected < ITEM_TOKENS:
            reason = report.reason if report else "the engine has no report"
            return SelfTestResult(False, f"the item was not injected ({reason})")
        is_busy = report.crowded_steps > self._crowded_steps
        error, spread = difference(injected, native), difference(cold, native)
        figures = (
            f"logits differ by {error:.3g} from a native prefix hit, cold runs by {spread:.3g}"
        )
        is_close = error <= spread + self._tolerance
        return SelfTestResult(is_close, figures, error, spread, is_busy=is_busy)

    async def _build(self) -> None:
        request_id = f"selftest_{secrets.token_hex(12)}"
        answer = await self._complete(
            secrets.token_hex(16),
            build_params(
                self._engine.secret,
                request_id=request_id,
                salt=self._tag,
                captures=[Capture(self._key, self._start, self._boundary)],
                prefix_end=self._start,
            ),
            max_tokens=1,
        )
        ours = _ours(answer)
        self._crowded_steps = ours.get("crowded_steps", 0)
        stored = await settled(self._engine, ours.get("stored", ()), ours.get("pending", ()))
        self._stored = sorted({self._key, *stored})

    async def _generate(
        self, salt: str, *, inject: bool = False
    ) -> tuple[Logprobs, EngineReport | None]:
        request_id = f"selftest_{secrets.token_hex(12)}"
        params = inject_params(
            self._engine.secret,
            request_id=request_id,
            salt=self._tag,
            items=[self._key],
            always=True,
        )
        answer = await self._complete(salt, params if inject else None, max_tokens=GREEDY_TOKENS)
        top = answer["choices"][0]["logprobs"]["top_logprobs"]
        if not inject or (report := await self._engine.report(request_id)) is None:
            return top, None
        return top, replace(report, crowded_steps=_ours(answer).get("crowded_steps", 0))

    async def _complete(
        self, salt: str, params: Mapping[str, Any] | None, *, max_tokens: int
    ) -> dict[str, Any]:
        body = {
            "model": self._engine.model,
            "prompt": self._prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "logprobs": TOP,
            "return_tokens_as_token_ids": True,
            "cache_salt": salt,
        }
        if params is not None:
            body["kv_transfer_params"] = dict(params)
        return await self._engine.complete(body)


def _ours(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the connector said when the request had ended."""
    return (answer.get("kv_transfer_params") or {}).get(PARAMS_FIELD) or {}
