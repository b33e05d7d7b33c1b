"""Remembers what users say in chats, for clients that cannot call `add` themselves.

Owns what of a request is remembered, and when. Off unless a request or the settings ask for it.
Invariants: only the user's own words are written, never an answer, a tool's result or memory; a
request that failed leaves nothing; an answer is never lost because writing failed.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from inferscale.protocol.memory import MAX_TEXT_BYTES, Message
from inferscale_sidecar.core import Scope, Tenant
from inferscale_sidecar.errors import InvalidInput, SidecarError
from inferscale_sidecar.service.chat_fields import Endpoint, text_of

log = logging.getLogger(__name__)

Remember = Literal["nothing", "user"]
"""user: the message that the request ends with, if it is the user's."""
REMEMBER_HEADER = "x-inferscale-remember"


class Adder(Protocol):
    """What this needs of the memory service."""

    async def remember(
        self, tenant: Tenant, scope: Scope, messages: Sequence[Message], *, wait: bool
    ) -> Any: ...


@dataclass(frozen=True)
class Said:
    """What is to be remembered, and of whom."""

    scope: Scope
    text: str


class WriteBack:
    """See the module.

    Args:
        memory: where to.
        default: for requests that name somebody by header and do not say.
    """

    def __init__(self, memory: Adder, *, default: Remember = "nothing") -> None:
        self._memory, self._default = memory, default
        self._running: set[asyncio.Task[None]] = set()

    def said(
        self,
        endpoint: Endpoint,
        body: Mapping[str, Any],
        ids: Mapping[str, str],
        wanted: str | None,
    ) -> Said | None:
        """What of this request is to be remembered once it is answered.

        Args:
            ids: whose words they are, by the request's headers.
            wanted: the header `x-inferscale-remember`.

        Raises:
            InvalidInput: another word than the known ones, or it does not say whose words they are.
        """
        if wanted is not None and wanted not in get_args(Remember):
            raise InvalidInput(
                f"{REMEMBER_HEADER} must be one of {', '.join(get_args(Remember))}",
                param=REMEMBER_HEADER,
            )
        if (wanted or self._default) == "nothing":
            return None
        if not ids:
            if wanted is None:
                return None
            raise InvalidInput(
                f"{REMEMBER_HEADER} needs somebody whose words they are; name them in "
                "x-inferscale-user-id",
                param=REMEMBER_HEADER,
            )
        text = _last_words(endpoint, body)
        return Said(Scope(**ids), text) if text else None

    def start(self, tenant: Tenant, said: Said | None) -> "asyncio.Task[None]":
        """Write while the model answers. The task never fails; wait for it to read your writes."""
        task = asyncio.create_task(self._write(tenant, said))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _write(self, tenant: Tenant, said: Said | None) -> None:
        if said is None:
            return
        try:
            message = Message(role="user", content=said.text)
            await self._memory.remember(tenant, said.scope, [message], wait=False)
        except SidecarError as error:
            log.warning("a request was answered, but not remembered: %s", error)
        except Exception:  # the answer is on its way; whatever it was, it is in the log
            log.exception("a request was answered, but not remembered")


def _last_words(endpoint: Endpoint, body: Mapping[str, Any]) -> str:
    """The text that the request ends with, if it is a user's: a turn begins there, once."""
    if endpoint == "completions":
        return ""
    given = body.get("input" if endpoint == "responses" else "messages")
    if isinstance(given, str):
        text = given
    else:
        last = given[-1] if isinstance(given, list) and given else None
        is_users = isinstance(last, Mapping) and last.get("role") == "user"
        text = text_of(last.get("content")) if is_users and last else ""
    fits = 0 < len(text.encode("utf-8", "ignore")) <= MAX_TEXT_BYTES
    return text if fits and text.strip() else ""
