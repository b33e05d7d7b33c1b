"""Prefix ahead: exact KV of what stands before the first memory, built before it is needed.

Owns which prefixes the engine is known to hold. Invariants: it only ever saves time; whatever fails
or takes too long here, the request goes on and is prefilled. What the engine keeps of pinned blocks
is written down, so that it goes when they go.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from inferscale_sidecar.build.send import send_build
from inferscale_sidecar.compose.frame import Placement
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.core import PinnedBlock, Tenant
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.errors import SidecarError

log = logging.getLogger(__name__)

MAX_WAIT_S = 2.0
MAX_KNOWN = 1024
_PROBE = "Wren Quillfeather paints lighthouses."


class PrefixLedger(Protocol):
    """What the warmer needs of the store."""

    async def put_block_prefixes(
        self, fingerprint: str, block_ids: Sequence[str], keys: Sequence[str]
    ) -> None: ...


class PrefixWarmer:
    """Makes the engine hold a prefix. Safe to call from many requests at once.

    Args:
        engine: where to.
        ledger: told which keys hold the text of which pinned blocks; None if there are none.
        max_wait_s: how long a request may be held up by a prefix that is new.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        ledger: PrefixLedger | None = None,
        max_wait_s: float = MAX_WAIT_S,
    ) -> None:
        self._engine, self._ledger, self._max_wait_s = engine, ledger, max_wait_s
        self._known: OrderedDict[bytes, None] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[None]] = {}

    async def ensure(
        self,
        tenant: Tenant,
        prefix_ids: Sequence[int],
        *,
        cache_salt: str | None = None,
        pinned: Sequence[PinnedBlock] = (),
    ) -> bool:
        """Builds the prefix unless it is known; returns whether the engine holds it now.

        Args:
            tenant: prefixes are never shared between tenants.
            prefix_ids: all token ids before the first item.
            cache_salt: of the request that is to come, so that it finds the blocks as well.
            pinned: the blocks whose text is in it.
        """
        name = _name(tenant, prefix_ids)
        if name in self._known:
            self._known.move_to_end(name)
            return True
        task = self._running.get(name)
        if task is None:
            block_ids = tuple(block.block_id for block in pinned)
            work = self._build(name, tenant, tuple(prefix_ids), cache_salt, block_ids)
            task = asyncio.create_task(work)
            self._running[name] = task
            task.add_done_callback(lambda _: self._running.pop(name, None))
        await asyncio.wait({task}, timeout=self._max_wait_s)
        return name in self._known

    def forget(self, tenant: Tenant, prefix_ids: Sequence[int]) -> None:
        """The engine turned out not to hold this prefix (any more)."""
        self._known.pop(_name(tenant, prefix_ids), None)

    def clear(self) -> None:
        """The engine is another one now."""
        self._known.clear()

    async def stop(self) -> None:
        """Aborts what is running."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _build(
        self,
        name: bytes,
        tenant: Tenant,
        ids: tuple[int, ...],
        salt: str | None,
        block_ids: tuple[str, ...],
    ) -> None:
        try:
            stored = await send_build(
                self._engine,
                (*ids, ids[-1]),  # the last token of a prompt is not captured, whatever it is
                tag=tenant_tag(tenant),
                prefix_end=len(ids),
                cache_salt=salt,
                priority=0,
            )
            if self._ledger and block_ids and stored:
                fingerprint = self._engine.fingerprint
                await self._ledger.put_block_prefixes(fingerprint, block_ids, sorted(stored))
        except SidecarError as error:
            log.warning("prefix of %d tokens not built ahead: %s", len(ids), error)
            return
        self._known[name] = None
        if len(self._known) > MAX_KNOWN:
            self._known.popitem(last=False)


class PrefixFinder:
    """Token ids of everything before the first item, as the engine itself renders it.

    The engine is asked once per system message, tool list and pinned blocks; parts, tools and
    template options are rendered there and nowhere else, so nothing can disagree.

    Args:
        engine: asked through `/tokenize`.
        lists: gives the frame, its placement and the probe's token ids.
    """

    def __init__(self, engine: Engine, lists: ListTokenizer) -> None:
        self._engine, self._frame, self._placement = engine, lists.frame, lists.placement
        self._probe = lists.split([_PROBE]).item_ids(0)
        self._found: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()

    async def for_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        pinned: Sequence[PinnedBlock] = (),
    ) -> tuple[int, ...]:
        """Prefix of a chat request; empty if it cannot be told.

        Args:
            messages: the client's own, without memory.
            options: the fields of the request that change what the template writes.
            pinned: blocks that stand before the items.
        """
        block = self._frame.render([_PROBE], pinned)
        head = leading(messages, self._placement)
        placed = self._frame.place(head, block, placement=self._placement)
        return await self._ask({"messages": placed, **options})

    async def for_prompt(self, pinned: Sequence[PinnedBlock] = ()) -> tuple[int, ...]:
        """Prefix of a plain completion."""
        return await self._ask({"prompt": self._frame.render([_PROBE], pinned)})

    async def _ask(self, body: Mapping[str, Any]) -> tuple[int, ...]:
        name = hashlib.sha256(repr((self._engine.fingerprint, body)).encode("utf-8", "replace"))
        if (found := self._found.get(name.digest())) is not None:
            self._found.move_to_end(name.digest())
            return found
        try:
            ids = await self._engine.tokenize({"model": self._engine.model, **body})
        except SidecarError as error:  # the request itself will tell, or will do without
            log.warning("prefix not known: %s", error)
            return ()
        found = self._found[name.digest()] = tuple(ids[: _last_index(ids, self._probe)])
        if len(self._found) > MAX_KNOWN:
            self._found.popitem(last=False)
        return found


def leading(messages: Sequence[Mapping[str, Any]], placement: Placement) -> list[Mapping[str, Any]]:
    """As few messages as decide what stands before the memory block, and in it."""
    if placement == "user":
        users = [n for n, m in enumerate(messages) if m.get("role") == "user"]
        return list(messages[: users[0] + 1] if users else messages)
    system = [m for m in messages[:1] if m.get("role") in ("system", "developer")]
    return [*system, {"role": "user", "content": "."}]


def _last_index(ids: Sequence[int], part: Sequence[int]) -> int:
    """Where `part` stands last in `ids`; 0 if nowhere."""
    size = len(part)
    for at in range(len(ids) - size, -1, -1):
        if tuple(ids[at : at + size]) == tuple(part):
            return at
    return 0


def _name(tenant: Tenant, ids: Sequence[int]) -> bytes:
    digest = hashlib.sha256(tenant_tag(tenant).encode())
    digest.update(b"".join(i.to_bytes(4, "little") for i in ids))
    return digest.digest()
