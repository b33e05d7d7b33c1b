"""The two ways to the first token: through the SDK as an agent goes, and straight to the engine.

Owns how one request is timed. A `Turn` is one composition; asking it again asks another question
about the same memory block.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx
from benchmarks._items import USER, Stored, StoredItem
from benchmarks._rounds import Sample

from inferscale import Memory, MemoryHandle
from inferscale.protocol.chat import Fidelity
from inferscale.protocol.engine import inject_params
from inferscale_sidecar.compose.frame import MemoryFrame
from inferscale_sidecar.compose.keys import cache_salt, tenant_tag
from inferscale_sidecar.compose.order import suffix_items

SYSTEM = "You are the assistant of a busy person. Answer in one short sentence."
_ONE_TOKEN: dict[str, Any] = {
    "max_tokens": 1,
    "temperature": 0,
    "stream_options": {"include_usage": True},
}
_FRAME = MemoryFrame()


class SdkArm:
    """As an agent sees it. The first request of a turn pays for its recall, later ones do not."""

    via = "sdk"

    def __init__(
        self, memory: Memory, questions: Iterator[str], fidelity: Fidelity = "balanced"
    ) -> None:
        self._memory, self._questions, self._fidelity = memory, questions, fidelity

    def turn(self, items: int) -> SdkTurn:
        return SdkTurn(self._memory, self._questions, items, self._fidelity)

    def no_memory(self) -> Sample:
        return _timed_chat(self._memory, next(self._questions), None)


@dataclass
class SdkTurn:
    """See `SdkArm`."""

    memory: Memory
    questions: Iterator[str]
    items: int
    fidelity: Fidelity
    handle: MemoryHandle | None = None

    def ask(self, *, inject: bool) -> Sample:
        question = next(self.questions)
        recall_ms = None
        if self.handle is None:
            started = time.perf_counter()
            self.handle = self.memory.recall(question, user_id=USER, k=self.items)
            recall_ms = _since(started)
        field = {"handle": self.handle.id, "inject": inject, "fidelity": self.fidelity}
        sample = _timed_chat(self.memory, question, field)
        return replace(sample, ms=sample.ms + (recall_ms or 0), recall_ms=recall_ms)


def _timed_chat(memory: Memory, question: str, field: dict[str, Any] | None) -> Sample:
    usage, first = None, None
    started = time.perf_counter()
    with memory.chat(_messages(question), memory=field, stream=True, **_ONE_TOKEN) as chunks:
        for chunk in chunks:
            if first is None and any(c.delta.content or c.finish_reason for c in chunk.choices):
                first = _since(started)
            usage = chunk.usage or usage
        report = None if field is None else chunks.report()
    if first is None or usage is None:
        raise SystemExit("an answer came without a token or without usage")
    cached = int((usage.prompt_tokens_details or {}).get("cached_tokens") or 0)
    injected = report.tokens.injected if report and report.tokens else 0
    mode = report.mode if report else "none"
    return Sample(first, usage.prompt_tokens, injected, cached - injected, mode)


class EngineArm:
    """Prepared bodies sent to vLLM: no recall and no sidecar. Compositions are random lists.

    Args:
        http: of the engine, with the secret's header.
        model: name that the engine serves.
        secret: signs what the connector is asked to do.
        stored: items to draw from; their keys are the sidecar's own.
    """

    via = "engine"

    def __init__(
        self,
        http: httpx.Client,
        model: str,
        secret: str,
        stored: Stored,
        questions: Iterator[str],
        seed: int,
        fidelity: Fidelity = "balanced",
    ) -> None:
        self._http, self._model, self._secret = http, model, secret
        self._stored, self._questions = stored, questions
        self._rng = random.Random(seed)
        self._fidelity = fidelity
        self._asked = 0

    def turn(self, items: int) -> EngineTurn:
        return EngineTurn(self, self.draw(items))

    def draw(self, items: int) -> list[StoredItem]:
        """So many random items in random order."""
        return self._rng.sample(self._stored.items, items)

    def no_memory(self) -> Sample:
        return self._timed(self._body(_messages(next(self._questions))), None)

    def ask(self, items: Sequence[StoredItem], *, inject: bool) -> Sample:
        """Time one request with these items, in this order."""
        body, request_id = self.request(items, inject=inject)
        return self._timed(body, "injected" if inject else "text", request_id)

    def request(self, items: Sequence[StoredItem], *, inject: bool) -> tuple[dict[str, Any], str]:
        """The body of such a request, and the name of its report (empty for text)."""
        body = self._body(self.placed(items))
        if not inject:
            return body, ""
        self._asked += 1
        request_id = f"bench-{self._asked}"
        suffix = 0 if self._fidelity == "fast" else suffix_items(len(items))
        head = items[: len(items) - suffix]
        body["kv_transfer_params"] = inject_params(
            self._secret,
            request_id=request_id,
            salt=tenant_tag(self._stored.tenant),
            items=[item.key for item in head],
        )
        return body, request_id

    def placed(self, items: Sequence[StoredItem]) -> list[dict[str, Any]]:
        """Messages with the memory block, as the sidecar would write them."""
        block = _FRAME.render([item.text for item in items])
        return _FRAME.place(_messages(next(self._questions)), block)

    def prompt_ids(self, items: Sequence[StoredItem]) -> list[int]:
        """Token ids of such a prompt, by the engine's own rendering."""
        body = {"model": self._model, "messages": self.placed(items)}
        answer = self._http.post("/tokenize", json=body).raise_for_status().json()
        return [int(token) for token in answer["tokens"]]

    def _body(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": messages,
            "stream": True,
            "cache_salt": cache_salt(self._stored.tenant),
            **_ONE_TOKEN,
        }

    def _timed(self, body: dict[str, Any], mode: str | None, request_id: str = "") -> Sample:
        first, usage = _stream(self._http, body)
        cached = int((usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)
        injected = 0
        if request_id:
            report = self._http.get(f"/inferscale/reports/{request_id}").raise_for_status().json()
            injected = int(report["injected"])
            is_whole = report["reason"] in (None, "native_hit")
            mode = "injected" if is_whole else "partial" if injected else "text"
        return Sample(first, usage["prompt_tokens"], injected, cached - injected, mode or "none")


@dataclass(frozen=True)
class EngineTurn:
    """See `EngineArm`."""

    arm: EngineArm
    items: Sequence[StoredItem]

    def ask(self, *, inject: bool) -> Sample:
        return self.arm.ask(self.items, inject=inject)


def _stream(http: httpx.Client, body: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Milliseconds to the first token, and the usage."""
    first, usage = None, None
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    started = time.perf_counter()
    with http.stream("POST", "/v1/chat/completions", content=content, headers=headers) as answer:
        if answer.status_code != 200:
            raise SystemExit(f"the engine answered {answer.status_code}: {answer.read()!r:.500}")
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if first is None and has_token(chunk):
                first = _since(started)
            usage = chunk.get("usage") or usage
    if first is None or usage is None:
        raise SystemExit("the engine answered without a token or without usage")
    return first, usage


def has_token(chunk: dict[str, Any]) -> bool:
    """Whether a chunk of a stream brings a token."""
    return any(c["delta"].get("content") or c.get("finish_reason") for c in chunk["choices"])


def _messages(question: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]


def _since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3
