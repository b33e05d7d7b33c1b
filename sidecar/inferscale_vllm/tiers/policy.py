"""The scheduler's half of the tiers: what lies where, what is copied when, who has to wait.

Owns the slabs of both arenas, for all ranks alike; the workers carry out what `step` says.
Invariants: what a request was told to be ready stays where it is until the step that injects it is
complete; a copy never goes to slabs that a later reservation was given.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from inferscale_vllm.bank import ItemHeader
from inferscale_vllm.metadata import Copy
from inferscale_vllm.pace import StepBudget
from inferscale_vllm.state import EngineState
from inferscale_vllm.tiers.slabs import Name, Slabs, slabs_for

NOTE = "tiers"
MAX_WAITS = 64
"""How often a request is told to wait. What is in no arena can be injected, too, only slower."""


def note_name(rank: int) -> str:
    """The note in which a worker says what arenas it has; None: it has none."""
    return f"{NOTE}:{rank}"


@dataclass
class _Request:
    """A request's items, with the slabs that each takes."""

    sizes: dict[Name, int]
    is_pinned: bool = False
    waits: int = 0


class Tiers:
    """Two arenas above the bank. `hbm_slabs` may be 0.

    Args:
        host_slabs, hbm_slabs: of each arena, of the smallest rank.
        slab_bytes: of both.
        step_bytes: most that one step fetches from the bank, in whole slabs; 0: no limit.
        tell: told what is where, whenever that changes.
    """

    def __init__(
        self,
        *,
        host_slabs: int,
        hbm_slabs: int,
        slab_bytes: int,
        step_bytes: int = 0,
        tell: Callable[[Mapping[str, Any]], None] = lambda facts: None,
    ) -> None:
        self.host, self.hbm = Slabs(host_slabs), Slabs(hbm_slabs)
        self._slab_bytes, self._tell = slab_bytes, tell
        self._budget = StepBudget(step_bytes)
        self._requests: dict[str, _Request] = {}
        self._unfetched: dict[Name, None] = {}  # in the order of arrival
        self._unlifted: dict[Name, None] = {}  # in the host arena, or on its way there
        self._admitted: list[str] = []
        self._is_crowded = False
        self._fetched_bytes = 0

    def want(self, holder: str, items: Mapping[str, ItemHeader]) -> None:
        """A request has arrived. If there is room, its items get slabs, and are copied there.

        Args:
            holder: the request. It pins the items until it is `admitted`, or released.
            items: headers by key.
        """
        sizes = {
            (key, h.checksum): slabs_for(
                h.num_tokens, self._slab_bytes, h.size_bytes // h.num_tokens
            )
            for key, h in items.items()
        }
        self._requests[holder] = _Request(sizes)
        self._pin(holder, self._requests[holder])

    def is_ready(self, holder: str) -> bool:
        """Whether the worker finds the request's items in an arena when the coming step begins.

        True also for what no arena can hold, and for who has waited long enough.
        """
        request = self._requests.get(holder)
        if request is None or request.waits >= MAX_WAITS:
            return True
        if sum(request.sizes.values()) > self.host.num_slabs:
            return True
        is_here = self._pin(holder, request) and self._unfetched.keys().isdisjoint(request.sizes)
        request.waits += not is_here
        return is_here

    def _pin(self, holder: str, request: _Request) -> bool:
        """Reserves slabs for all of a request's items unless it has them; whether it has them."""
        if request.is_pinned or self._is_crowded:
            return request.is_pinned
        lifted = {name: size for name, size in request.sizes.items() if self._is_lifted(name)}
        rest = {name: size for name, size in request.sizes.items() if name not in lifted}
        new = self.host.reserve(holder, rest)
        if new is None:
            self._is_crowded = True  # whoever asks next waits as well, until somebody lets go
            return False
        self._unfetched |= dict.fromkeys(new)
        self.hbm.reserve(holder, lifted)
        self._unlifted |= dict.fromkeys(self.hbm.reserve(holder, rest) or ())
        request.is_pinned = True
        return True

    def _is_lifted(self, name: Name) -> bool:
        """Whether the HBM arena has the item, and not only slabs for it."""
        is_waiting = name in self._unfetched or name in self._unlifted
        return not is_waiting and self.hbm.slabs_of(name) is not None

    def admitted(self, holder: str) -> None:
        """The coming step injects the request's items. If it is preempted, it has to ask again."""
        self._admitted.append(holder)

    def release(self, holder: str) -> None:
        """The request is over."""
        self._unpin(holder)
        self._requests.pop(holder, None)

    def _unpin(self, holder: str) -> None:
        self.host.release(holder)
        self.hbm.release(holder)
        self._is_crowded = False
        if request := self._requests.get(holder):
            request.is_pinned, request.waits = False, 0

    def step(self) -> tuple[list[Copy], list[Copy]]:
        """The copies of this step: fetches, after its forward pass, and lifts, before."""
        fetches, lifts = self._fetches(), self._lifts()
        for holder in self._admitted:
            self._unpin(holder)
        self._admitted.clear()
        if fetches or lifts:
            self._tell(self.stats())
        return fetches, lifts

    def _fetches(self) -> list[Copy]:
        found: list[Copy] = []
        for name in list(self._unfetched):
            host = self.host.slabs_of(name) or ()  # (): evicted before anybody came back for it
            size = len(host) * self._slab_bytes
            if not self._budget.allows(size):
                break
            del self._unfetched[name]
            if host:
                self._budget.spend(size)
                self._fetched_bytes += size
                self._unlifted.pop(name, None)
                found.append(Copy(name[0], host, self.hbm.slabs_of(name) or ()))
        self._budget.renew()
        return found

    def _lifts(self) -> list[Copy]:
        found: list[Copy] = []
        for name in [name for name in self._unlifted if name not in self._unfetched]:
            del self._unlifted[name]
            host, hbm = self.host.slabs_of(name), self.hbm.slabs_of(name)
            if host is None:
                self.hbm.drop(name)  # nobody pins it: who pins slabs without content pins host's
            elif hbm is not None:
                found.append(Copy(name[0], host, hbm))
        return found

    def stats(self) -> dict[str, Any]:
        """Of each arena: items, bytes and evictions; and what was fetched, all in whole slabs."""
        size = self._slab_bytes
        arenas = {
            tier: {
                "items": len(slabs),
                "used_bytes": slabs.used * size,
                "limit_bytes": slabs.num_slabs * size,
                "evicted_items": slabs.evicted,
            }
            for tier, slabs in (("host", self.host), ("hbm", self.hbm))
        }
        return {**arenas, "fetched_bytes": self._fetched_bytes}


def tiers_of(state: EngineState, num_ranks: int, step_bytes: int) -> Tiers | None:
    """The tiers over the arenas that all workers have opened; None if one of them has none.

    Workers open theirs before vLLM makes its scheduler.
    """
    notes = [state.get_note(note_name(rank)) for rank in range(num_ranks)]
    state.note(NOTE, None)
    if not all(notes) or len({note["slab_bytes"] for note in notes}) != 1:
        return None
    tiers = Tiers(
        host_slabs=min(note["host_slabs"] for note in notes),
        hbm_slabs=min(note["hbm_slabs"] for note in notes),
        slab_bytes=notes[0]["slab_bytes"],
        step_bytes=step_bytes,
        tell=partial(state.note, NOTE),
    )
    state.note(NOTE, tiers.stats())
    return tiers
