"""Finds what stands before the first memory of a prompt, by asking the engine that renders it.

Owns the questions and remembers the answers; builds nothing. Invariant: an answer is what the
engine itself renders, or empty.
"""

import hashlib
import logging
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from inferscale_sidecar.compose.frame import Placement
from inferscale_sidecar.compose.head import ListTokenizer
from inferscale_sidecar.core import PinnedBlock
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.errors import EngineUnavailable, SidecarError

log = logging.getLogger(__name__)

MAX_KNOWN = 1024
_PROBE = "Wren Quillfeather paints lighthouses."
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks something up.",
            "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
        },
    }
]
At = Literal["system", "last"]
"""Where memory stands in a chat: a `Position` that was decided."""


class PrefixFinder:
    """Token ids of everything before the first item, as the engine itself renders it.

    The engine is asked once per system message (or history), tool list and pinned blocks; parts,
    tools and template options are rendered there and nowhere else, so nothing can disagree.

    Args:
        engine: asked through `/tokenize`.
        lists: gives the frame, its placement and the probe's token ids.
    """

    def __init__(self, engine: Engine, lists: ListTokenizer) -> None:
        self._engine, self._frame, self._placement = engine, lists.frame, lists.placement
        self._probe = lists.split([_PROBE]).item_ids(0)
        self.openings = lists.openings
        """By which what is shown is found again."""
        self._found: OrderedDict[bytes, array[int]] = OrderedDict()
        self._prints_behind: dict[str, bool] = {}  # by fingerprint

    async def for_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        pinned: Sequence[PinnedBlock] = (),
        *,
        position: At = "system",
    ) -> tuple[int, ...]:
        """Prefix of a chat request; empty if it cannot be told.

        Args:
            messages: the client's own, without memory.
            options: the fields of the request that change what the template writes.
            pinned: blocks that stand before the items.
            position: where the memory will stand.
        """
        placement: Placement = "last" if position == "last" else self._placement
        block = self._frame.render([_PROBE], pinned)
        head = leading(messages, placement)
        placed = self._frame.place(head, block, placement=placement)
        return await self._ask({"messages": placed, **options})

    async def prints_tools_behind(self) -> bool:
        """Whether the chat template prints a request's tools behind the system message's text,
        so that memory at its end stands before them. False if that cannot be told.
        """
        name = self._engine.fingerprint
        if name not in self._prints_behind:
            block = self._frame.render([_PROBE])
            user = [{"role": "user", "content": "."}]
            chat = {"messages": self._frame.place(user, block, placement=self._placement)}
            try:
                behind = [await self._behind_probe(chat | more) for more in ({}, {"tools": _TOOLS})]
            except EngineUnavailable:
                return False
            except SidecarError:  # a template that takes no tools
                behind = [0, 0]
            self._prints_behind[name] = behind[1] > behind[0]
        return self._prints_behind[name]

    async def _behind_probe(self, body: Mapping[str, Any]) -> int:
        """How many tokens stand behind the probe."""
        ids = await self._engine.tokenize({"model": self._engine.model, **body})
        return len(ids) - _last_index(ids, self._probe)

    async def for_prompt(self, pinned: Sequence[PinnedBlock] = ()) -> tuple[int, ...]:
        """Prefix of a plain completion."""
        return await self._ask({"prompt": self._frame.render([_PROBE], pinned)})

    async def _ask(self, body: Mapping[str, Any]) -> tuple[int, ...]:
        name = hashlib.sha256(
            repr((self._engine.fingerprint, _said(body))).encode("utf-8", "replace")
        )
        if (found := self._found.get(name.digest())) is not None:
            self._found.move_to_end(name.digest())
            return tuple(found)
        try:
            ids = await self._engine.tokenize({"model": self._engine.model, **body})
        except SidecarError as error:  # the request itself will tell, or will do without
            log.warning("prefix not known: %s", error)
            return ()
        prefix = ids[: _last_index(ids, self._probe)]
        self._found[name.digest()] = array("I", prefix)
        if len(self._found) > MAX_KNOWN:
            self._found.popitem(last=False)
        return tuple(prefix)


def leading(messages: Sequence[Mapping[str, Any]], placement: Placement) -> list[Mapping[str, Any]]:
    """As few messages as decide what stands before the memory block, and in it."""
    users = [n for n, m in enumerate(messages) if m.get("role") == "user"]
    if placement == "last":  # what the user says stands behind the block
        return [*messages[: users[-1]], {"role": "user", "content": ""}] if users else [*messages]
    if placement == "user":
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


def _said(body: Mapping[str, Any]) -> Any:
    """The body without fields of messages that say nothing: some clients send back all there are,
    some only what they need, and both mean the same prompt.
    """
    if "messages" not in body:
        return sorted(body.items())
    messages = [
        sorted((k, v) for k, v in m.items() if v not in (None, "", []) or k == "content")
        for m in body["messages"]
    ]
    return messages, [(k, body[k]) for k in sorted(body) if k != "messages"]
