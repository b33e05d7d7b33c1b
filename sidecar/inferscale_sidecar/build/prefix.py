"""Prefix ahead: exact KV of what stands before the first memory, built before it is needed.

Owns which prefixes the engine is known to hold. Invariants: it only ever saves time; whatever fails
or takes too long here, the request goes on and is prefilled. What the engine keeps of pinned blocks
is written down, so that it goes when they go; what it keeps of a conversation is, for every scope
that has it, and goes in time, or when one of these is forgotten. What was purged is not known.
"""

import asyncio
import hashlib
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.compose.head import Openings
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.compose.shown import shown_blocks
from inferscale_sidecar.core import PinnedBlock, Scope, Tail, Tenant
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.errors import SidecarError

log = logging.getLogger(__name__)

MAX_WAIT_S = 2.0
MAX_KNOWN = 1024


class PrefixLedger(Protocol):
    """What the warmer needs of the store."""

    async def put_block_prefixes(
        self, fingerprint: str, block_ids: Sequence[str], keys: Sequence[str]
    ) -> None: ...

    async def purge_later(
        self, fingerprint: str, keys: Sequence[str], tenant_id: str, tail: Tail
    ) -> bool: ...


class PrefixWarmer:
    """Makes the engine hold a prefix. Safe to call from many requests at once.

    Args:
        engine: where to.
        ledger: told which keys hold the text of which pinned blocks, and which go when; None if
            nobody wants to know.
        max_wait_s: how long a request may be held up by a prefix that is new.
        openings: of the model's prompts.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        ledger: PrefixLedger | None = None,
        max_wait_s: float = MAX_WAIT_S,
        openings: Openings | None = None,
    ) -> None:
        self._engine, self._ledger, self._max_wait_s = engine, ledger, max_wait_s
        self._openings = openings or Openings()
        self._known: OrderedDict[bytes, _Held] = OrderedDict()
        self._running: dict[tuple[bytes, int], asyncio.Task[None]] = {}  # and priority

    async def ensure(
        self,
        tenant: Tenant,
        prefix_ids: Sequence[int],
        *,
        cache_salt: str | None = None,
        pinned: Sequence[PinnedBlock] = (),
        tail: Tail | None = None,
        max_wait_s: float | None = None,
        priority: int = 0,
    ) -> bool:
        """Builds the prefix unless it is known; returns whether the engine holds it now.

        Args:
            tenant: prefixes are never shared between tenants.
            prefix_ids: all token ids before the first item.
            cache_salt: of the request that is to come, so that it finds the blocks as well.
            pinned: the blocks whose text is in it.
            tail: whose conversation it ends with; None: with none, kept as long as there is room.
            max_wait_s: another limit than the usual one.
            priority: of the build (`send.BUILD_PRIORITY`: behind all requests).
        """
        name = _name(tenant, prefix_ids)
        if not self._is_known(name):
            wanted = _Wanted(
                *(name, tenant, tuple(prefix_ids), cache_salt),
                *(tuple(pinned), tail, priority),
            )
            await asyncio.wait({self._task(wanted)}, timeout=max_wait_s or self._max_wait_s)
        if not self._is_known(name):
            return False
        self._known.move_to_end(name)
        if tail is not None:
            await self._share(tenant, self._known[name], tail)
        return True

    def forget(self, tenant: Tenant, prefix_ids: Sequence[int]) -> None:
        """The engine turned out not to hold this prefix (any more)."""
        self._known.pop(_name(tenant, prefix_ids), None)

    def purged(self, keys: Sequence[str]) -> None:
        """The bank has dropped these keys."""
        gone = set(keys)
        for name in [name for name, held in self._known.items() if gone & held.keys]:
            del self._known[name]

    def clear(self) -> None:
        """The engine is another one now."""
        self._known.clear()

    async def stop(self) -> None:
        """Aborts what is running."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_known(self, name: bytes) -> bool:
        held = self._known.get(name)
        return held is not None and held.until > time.monotonic()

    def _task(self, wanted: "_Wanted") -> asyncio.Task[None]:
        """Builds it; the one that does already, if that is no later than this one would be."""
        at = (wanted.name, wanted.priority)
        task = self._running.get(at) or self._running.get((wanted.name, 0))
        if task is None:  # what runs behind all requests is not waited for by one
            task = self._running[at] = asyncio.create_task(self._build(wanted))
            task.add_done_callback(lambda _: self._running.pop(at, None))
        return task

    async def _share(self, tenant: Tenant, held: "_Held", tail: Tail) -> None:
        """Writes down that another scope has this conversation, too."""
        if held.scopes is None or tail.scope in held.scopes or not (self._ledger and held.keys):
            return
        rest = replace(tail, keep_s=max(0.0, held.until - time.monotonic()))
        try:
            keys = sorted(held.keys)
            await self._ledger.purge_later(self._engine.fingerprint, keys, tenant.id, rest)
        except SidecarError as error:  # the first scope's row stands; the next request tries again
            log.warning("not written down whose the end of a conversation is, too: %s", error)
            return
        held.scopes.add(tail.scope)

    async def _build(self, wanted: "_Wanted") -> None:
        ids = wanted.prefix_ids
        try:
            stored = await send_build(
                self._engine,
                (*ids, ids[-1]),  # the last token of a prompt is not captured, whatever it is
                tag=tenant_tag(wanted.tenant),
                prefix_end=len(ids),
                cache_salt=wanted.cache_salt,
                priority=wanted.priority,
                shows=shown_blocks(wanted.pinned, self._openings),
            )
            is_kept = await self._write_down(wanted, sorted(stored))
        except SidecarError as error:
            log.warning("prefix of %d tokens not built ahead: %s", len(ids), error)
            return
        if not is_kept:
            return
        tail = wanted.tail
        until = math.inf if tail is None else time.monotonic() + tail.keep_s
        scopes = None if tail is None else {tail.scope}
        self._known[wanted.name] = _Held(until, frozenset(stored), scopes)
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)

    async def _write_down(self, wanted: "_Wanted", keys: Sequence[str]) -> bool:
        """Returns False if its conversation was forgotten meanwhile, so that it goes at once."""
        if not (self._ledger and keys):
            return True
        fingerprint = self._engine.fingerprint
        if wanted.pinned:
            block_ids = [block.block_id for block in wanted.pinned]
            await self._ledger.put_block_prefixes(fingerprint, block_ids, keys)
        if wanted.tail is None:
            return True
        tenant_id = wanted.tenant.id
        return await self._ledger.purge_later(fingerprint, keys, tenant_id, wanted.tail)


@dataclass(frozen=True)
class _Held:
    """A prefix that the engine holds.

    Attributes:
        until: monotonic time.
        keys: of what the bank holds of it.
        scopes: whose it is, as far as written down; None if it ends with no conversation.
    """

    until: float
    keys: frozenset[str]
    scopes: set[Scope] | None


@dataclass(frozen=True)
class _Wanted:
    """A prefix that is to be built."""

    name: bytes
    tenant: Tenant
    prefix_ids: tuple[int, ...]
    cache_salt: str | None
    pinned: tuple[PinnedBlock, ...]
    tail: Tail | None
    priority: int


def _name(tenant: Tenant, ids: Sequence[int]) -> bytes:
    digest = hashlib.sha256(tenant_tag(tenant).encode())
    digest.update(b"".join(i.to_bytes(4, "little") for i in ids))
    return digest.digest()
