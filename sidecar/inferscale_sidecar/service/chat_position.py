"""Decides where the memory of a request stands: in the system message, or behind the history.

Owns the rule, and no more. Invariant: it looks at the request and the chat template only, never at
what can be injected, so that the text of a prompt is the same whether items are injected or not.

In front of the history, other memory makes other KV of all that follows, and a turn of a
conversation prefills its whole history again; so do tools that the template prints behind the
system message's text. Behind it, both stay vLLM's own prefix hit. A handle is the same memory every
time, so it stays where it was first: in the system message all that follows is a hit as well, as
long as nobody moves it (docs/architecture.md).
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from inferscale.protocol.chat import Position
from inferscale_sidecar.build.prefix_finder import At, PrefixFinder
from inferscale_sidecar.service.chat_messages import Messages
from inferscale_sidecar.service.chat_place import Place

MAX_HANDLES = 4096


class PositionRule:
    """See the module.

    Args:
        default: for requests that do not say.
        finder: knows the chat template; None: `auto` is the system message.
    """

    def __init__(self, default: Position, finder: PrefixFinder | None) -> None:
        self._default, self._finder = default, finder
        self._first: OrderedDict[str, At] = OrderedDict()  # by handle

    async def choose(
        self,
        asked: Position | None,
        place: Place,
        body: Mapping[str, Any],
        handle: str | None = None,
    ) -> At:
        """Where the memory goes.

        Args:
            asked: what the request says.
            place: of its endpoint.
            body: the client's.
            handle: that names the memory.
        """
        wanted = asked or self._default
        if wanted != "auto":
            return wanted
        chat = place.rendered(body, "last") if self._finder else None
        if chat is None or self._finder is None:  # what stands before it could not be found
            return "system"
        if handle is not None and handle in self._first:
            self._first.move_to_end(handle)
            return self._first[handle]
        at = await self._better(self._finder, *chat)
        if handle is not None:
            self._first[handle] = at
            if len(self._first) > MAX_HANDLES:
                self._first.popitem(last=False)
        return at

    async def _better(
        self, finder: PrefixFinder, messages: Messages, options: Mapping[str, Any]
    ) -> At:
        users = sum(message.get("role") == "user" for message in messages)
        if users > 1:
            return "last"
        has_tools = users == 1 and bool(options.get("tools"))
        return "last" if has_tools and await finder.prints_tools_behind() else "system"
