"""Forgetting in vLLM's prefix cache: when a memory is deleted, the blocks that hold it lose their
names, and so do all that were computed behind it.

Owns what is known of live requests, and the order of things: what was deleted is taken out before
the next request is looked up. Invariants: a block that showed a deleted text is found by nobody any
more; a request that is under way keeps what it reads, and keeps to itself what it still computes; a
bug of ours forgets too much, never too little.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inferscale.protocol.engine import Shown
from inferscale_vllm import compat
from inferscale_vllm.bank import ItemHeader
from inferscale_vllm.bank.forgotten import ForgottenLog
from inferscale_vllm.held import HeldTexts
from inferscale_vllm.operation import Build, Operation
from inferscale_vllm.plan import Span, begins_of
from inferscale_vllm.prefix_cache import PrefixCache
from inferscale_vllm.recent import RecentTexts
from inferscale_vllm.report import Reporter
from inferscale_vllm.taint import taint

logger = logging.getLogger(__name__)

_FOREVER = 2**31


@dataclass
class _Live:
    """A request from its arrival to its end. Blocks from number `private` on are named so that
    nobody else finds them; None: there are no such blocks."""

    request: Any
    shows: tuple[Shown, ...] = ()
    spans: tuple[Span, ...] = ()
    is_scratch: bool = False
    private: int | None = None

    @property
    def names(self) -> set[str]:
        """Of the texts that it shows."""
        return {name for frame in self.shows for name, _ in frame.texts}

    @property
    def texts(self) -> set[str]:
        """Names of what it shows, keys of what may be injected into it."""
        return self.names.union(span.key for span in self.spans)


class Forgetter:
    """See the module. One per scheduler; not for threads.

    Args:
        log: what is deleted.
        headers: live items by key, None for those that are not there.
        hash_function: vLLM's block hash function.
        reporter: counts what was taken out.
    """

    def __init__(
        self,
        *,
        log: ForgottenLog,
        headers: Callable[[Sequence[str]], list[ItemHeader | None]],
        hash_function: Callable[[Any], bytes],
        reporter: Reporter,
    ) -> None:
        self._log, self._headers = log, headers
        self._hash_function, self._reporter = hash_function, reporter
        self._seen = log.last  # what was deleted before is not in a cache that is empty
        reporter.forgot(0, self._seen)
        self._recent = RecentTexts()
        self._live: dict[str, _Live] = {}

    def bind(self, pool: Any, num_groups: int) -> None:
        """Says which cache, before the first request."""
        self._cache = PrefixCache(pool, num_groups)
        per_block = 4 + self._cache.block_size // 4
        self._held = HeldTexts(self._cache.holds, limit=4_096 + per_block * self._cache.num_blocks)

    def catch_up(self) -> None:
        """Takes out what was deleted meanwhile. Costs one read if that is nothing."""
        last = self._log.last
        if last == self._seen:
            return
        texts = self._log.since(self._seen)
        try:
            count = self._forget(texts)
        except Exception:  # whatever it was, what holds the text must go
            logger.exception("InferScale: deleted texts were not found in the prefix cache")
            count = self._forget_everything()
        self._seen = last
        self._reporter.forgot(count, last)

    def arrive(self, request: Any, operation: Operation | None) -> None:
        """A request is new; nothing of it was looked up yet."""
        live = self._live[request.request_id] = _Live(request)
        if operation is not None:
            live.shows = operation.shows
            live.is_scratch = isinstance(operation, Build) and operation.is_scratch

    def planned(self, request_id: str, spans: tuple[Span, ...]) -> None:
        """Its blocks have their names, and these items may be injected into it."""
        live = self._live[request_id]
        live.spans = spans  # of items in service: no span is of one that was deleted
        if any(name in self._recent for name in live.names):
            begins = [at for at, name in self._begins(live) if name in self._recent]
            self._seclude(live, min(begins))

    def finish(self, request: Any) -> None:
        """A request has ended; its blocks are still its own."""
        live = self._live.pop(request.request_id, None)
        if live is None or not compat.has_block_hasher(request):
            return
        try:
            self._keep(live)
        except Exception:  # it is not known now which blocks hold what
            logger.exception("InferScale: the texts of request %s are lost", request.request_id)
            self._held.lose()

    def _keep(self, live: _Live) -> None:
        chain = list(live.request.block_hashes)
        if live.is_scratch:
            live.private = 0
        if live.private is not None:
            self._cache.evict(set(chain[live.private :]))
            chain = chain[: live.private]
        self._held.add(chain, self._begins(live) if live.shows or live.spans else ())

    def _begins(self, live: _Live) -> list[tuple[int, str]]:
        """At which block each of a request's texts begins, or an earlier one."""
        prompt = np.asarray(live.request.prompt_token_ids or (), np.int32)
        keys = [key for frame in live.shows for _, key in frame.texts if key]
        headers = dict(zip(keys, self._headers(keys), strict=True)) if keys else {}
        items = {key: header.token_ids for key, header in headers.items() if header}
        begins = begins_of(prompt, live.shows, items)
        begins += [(span.start, span.key) for span in live.spans]
        return [(token // self._cache.block_size, text) for token, text in begins]

    def _forget(self, deleted: list[str] | None) -> int:
        self._recent.add_everything() if deleted is None else self._recent.add(deleted)
        if deleted is None or self._held.is_lossy:
            return self._forget_everything()
        texts = set(deleted)
        names = self._held.take(texts)
        for live in self._live.values():
            if live.texts & texts:
                first = min(at for at, text in self._begins(live) if text in texts)
                names.update(live.request.block_hashes[first:])
                self._seclude(live, first)
        for live in self._live.values():
            self._seclude_behind(live, names)
        return self._cache.evict(names)

    def _seclude_behind(self, live: _Live, names: set[bytes]) -> None:
        """Also of requests that show none of it: they may go on behind what does."""
        gone = (at for at, name in enumerate(live.request.block_hashes) if name in names)
        if (first := next(gone, None)) is not None:
            self._seclude(live, first)

    def _forget_everything(self) -> int:
        self._held.clear()
        for live in self._live.values():
            self._seclude(live, 0)
        return self._cache.clear()

    def _seclude(self, live: _Live, first: int) -> None:
        """Gives blocks from number `first` on names that nobody else has. What is in the cache
        under their old names stays as it is."""
        if live.private is not None and live.private <= first:
            return
        live.private = first
        start = first * self._cache.block_size
        taint(
            live.request,
            [Span(start, _FOREVER, f"private:{secrets.token_hex(16)}", start)],
            start=start,
            block_size=self._cache.block_size,
            hash_function=self._hash_function,
        )
