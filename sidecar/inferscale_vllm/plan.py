"""Pure planning: where items stand in a prompt, and which spans of it can be served from the bank.

Owns the arithmetic of token ranges and nothing else: no vLLM, no bank, no clock. Invariant: the
    spans of a
`Plan` are contiguous, ascending and end at or before the last prompt token but one.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from inferscale.protocol.engine import Capture, Shown
from inferscale_vllm.bank.items import NO_ADAPTER, NOBODY, ItemHeader


@dataclass(frozen=True)
class Span:
    """Prompt tokens [start, end) whose KV is item `key`, which was computed at `built_at`."""

    start: int
    end: int
    key: str
    built_at: int

    @property
    def shift(self) -> int:
        """Difference of positions that K must be rotated by."""
        return self.start - self.built_at


@dataclass(frozen=True)
class Segment:
    """Tokens [source, source + num_tokens) of an item, to be placed at prompt position
    `position`."""

    key: str
    source: int
    num_tokens: int
    position: int
    shift: int


@dataclass
class Plan:
    """What is to happen with one request. Kept until the request finishes, so that it survives
    preemption.

    Attributes:
        request_id: the sidecar's name of the request, for its report.
        op: `inject` or `build`.
        spans: servable spans, contiguous; empty if nothing will be injected.
        captures: slices whose KV is to be kept while this request computes them.
        wanted: keys that a build asked for, those already present included.
        reason: why not (everything was) injected; None if all was.
        tenant: whose request it is (`bank.tenant_of`).
        adapter: the request's LoRA adapter (`fingerprint.adapter_of`); zeros for none.
        holder: names the plan's promises; empty if it has none.
        renew_at: when they have to be renewed, monotonic seconds.
        step_bytes: what the step that injects it reads from the bank.
        is_delayed: it was put off to a later step.
    """

    request_id: str
    op: str
    num_prompt_tokens: int
    spans: tuple[Span, ...] = ()
    captures: list[Capture] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    reason: str | None = None
    native: int = 0
    injected: int = 0
    is_admitted: bool = False
    tenant: bytes = NOBODY
    adapter: bytes = NO_ADAPTER
    holder: bytes = b""
    renew_at: float = 0.0
    step_bytes: int = 0
    is_delayed: bool = False

    @property
    def start(self) -> int:
        return self.spans[0].start

    @property
    def end(self) -> int:
        return self.spans[-1].end


def find_chain(prompt: np.ndarray, items: Sequence[np.ndarray]) -> tuple[int, int]:
    """Where the items stand in the prompt one directly behind the other, matched on token ids.

    Args:
        prompt: int32 [P].
        items: int32 arrays, in order.

    Returns:
        (start of the first item, number of items that follow each other from there). The longest
        chain wins, the later one on a tie; (0, 0) if the first item is nowhere in the prompt.
    """
    best = (0, 0)
    if not items or not len(items[0]):
        return best
    text = prompt.tobytes()
    for at in _places(text, items[0].tobytes()):
        length = _chain_length(text, 4 * at, items)
        if length >= best[1]:
            best = (at, length)
    return best


def _places(text: bytes, part: bytes, start: int = 0) -> Iterator[int]:
    """At which tokens `part` stands in a prompt, from token `start` on; both int32 as bytes."""
    at = text.find(part, 4 * start)
    while at >= 0:
        if at % 4 == 0:
            yield at // 4
        at = text.find(part, at + 1)


def _chain_length(text: bytes, at: int, items: Sequence[np.ndarray]) -> int:
    for count, item in enumerate(items):
        if not text.startswith(item.tobytes(), at):
            return count
        at += 4 * len(item)
    return len(items)


def begins_of(
    prompt: np.ndarray, shows: Sequence[Shown], items: Mapping[str, np.ndarray]
) -> list[tuple[int, str]]:
    """At which token each shown text begins: never behind where it really does.

    Args:
        prompt: int32 [P].
        shows: what is shown, in order. A text without an item begins where the one before it ends,
            as far as that is known.
        items: token ids (int32) by key.
    """
    begins: list[tuple[int, str]] = []
    text = prompt.tobytes()
    for frame in shows:
        after = np.asarray(frame.after, np.int32)
        found = next(_places(text, after.tobytes()), None) if len(after) else None
        at = 0 if found is None else found + len(after)
        for name, key in frame.texts:
            ids = items.get(key) if key else None
            found = None if ids is None else next(_places(text, ids.tobytes(), at), None)
            if ids is None or found is None:
                begins.append((at, name))
                continue
            begins.append((found, name))
            at = found + len(ids)
    return begins


def item_spans(start: int, keys: Sequence[str], headers: Sequence[ItemHeader]) -> tuple[Span, ...]:
    """Spans of items that stand contiguously from prompt token `start` on."""
    spans: list[Span] = []
    for key, header in zip(keys, headers, strict=True):
        spans.append(Span(start, start + header.num_tokens, key, header.position))
        start += header.num_tokens
    return tuple(spans)


def clip(spans: Sequence[Span], limit: int) -> tuple[Span, ...]:
    """The spans up to prompt token `limit` (exclusive); one that crosses it is shortened."""
    return tuple(
        Span(s.start, min(s.end, limit), s.key, s.built_at) for s in spans if s.start < limit
    )


def segments(spans: Sequence[Span], start: int, end: int) -> list[Segment]:
    """The pieces of items that fill prompt tokens [start, end)."""
    pieces: list[Segment] = []
    for span in spans:
        low, high = max(span.start, start), min(span.end, end)
        if low < high:
            pieces.append(Segment(span.key, low - span.start, high - low, low, span.shift))
    return pieces


def prefix_key(salt: str, token_ids: np.ndarray, start: int, adapter: bytes = NO_ADAPTER) -> str:
    """Key of the exact KV of tokens [start, len(token_ids)) behind all tokens before them.

    Args:
        salt: the tenant's tag; prefixes are never shared across tenants.
        token_ids: int32, all tokens from the prompt's first on.
        start: first token whose KV the item holds.
        adapter: LoRA adapter that computes it.
    """
    digest = hashlib.sha256(b"prefix\x00" + salt.encode() + b"\x00" + start.to_bytes(4, "little"))
    digest.update(np.ascontiguousarray(token_ids, np.int32).tobytes())
    if adapter != NO_ADAPTER:
        digest.update(b"\x00adapter\x00" + adapter)
    return digest.hexdigest()


def prefix_starts(end: int, block_size: int, limit: int) -> list[int]:
    """Where the exact KV of a prefix of `end` tokens may begin, the widest first.

    A short prefix is kept whole, so that it serves without vLLM's prefix cache; of a long one only
    the tail behind the last full block is kept, because vLLM caches the rest itself.
    """
    tail = end // block_size * block_size
    starts = [0] if end <= limit else []
    if tail < end and tail not in starts:
        starts.append(tail)
    return starts


def slots_of(block_ids: Sequence[int], block_size: int, start: int, end: int) -> np.ndarray:
    """Cache slots (int64 [end - start]) of a request's tokens [start, end); -1 in a dropped block.

    Block 0 is vLLM's null block: a sliding-window group points there for tokens it no longer holds.
    """
    tokens = np.arange(start, end, dtype=np.int64)
    blocks = np.asarray(block_ids, np.int64)[tokens // block_size]
    return np.where(blocks == 0, -1, blocks * block_size + tokens % block_size)
