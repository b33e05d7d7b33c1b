"""What a turn of a conversation leaves in memory: which scope, which messages, written once.

Owns the write after a turn. Invariants: a turn that is written again adds nothing; an answered turn
does not fail because it cannot be remembered, unless it is asked to.
"""

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from inferscale import SCOPE_IDS, APIError, InvalidArgumentError
from inferscale_shared.clients import Clients

log = logging.getLogger(__name__)

IDS = SCOPE_IDS

Remember = Literal["user", "turn", "nothing"]
"""What a turn leaves behind: the user's messages, the final answer too, or nothing."""
REMEMBER: tuple[Remember, ...] = ("user", "turn", "nothing")

Said = Mapping[str, str]
"""A message as `Memory.add` takes it: `{"role": "user" | "assistant", "content": …}`."""


def ids_of(memory: Mapping[str, Any]) -> dict[str, str]:
    """The ids of a scope (`user_id`, …, as in `IDS`), without what else it names (`k`, …).

    Raises:
        InvalidArgumentError: there is none, as in a handle, or one is not a string.
    """
    ids = {name: memory[name] for name in IDS if memory.get(name) is not None}
    if not ids:
        raise InvalidArgumentError(
            f"whose memory? {dict(memory)!r} names none of {', '.join(IDS)}; "
            "pass a scope such as {'user_id': 'alice'}, or remember nothing."
        )
    for name, value in ids.items():
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name} is a {type(value).__name__}; it must be a string.")
    return ids


def check_remember(remember: str) -> None:
    """Refuse what is none of `REMEMBER`.

    Raises:
        InvalidArgumentError: it is not.
    """
    if remember not in REMEMBER:
        raise InvalidArgumentError(f"remember is {remember!r}; it must be one of {REMEMBER}.")


class TurnWriter:
    """Writes turns into one scope's memory.

    Args:
        clients: who writes.
        memory: a scope, such as `{"user_id": "alice", "k": 20}`; its ids are used.
        remember: "user" writes what the user said, "turn" the final answer too, "nothing" nothing,
            and then `memory` may be anything, such as a handle.
        metadata: goes with everything that is written.
        raise_write_errors: True: an error of the sidecar is raised. False: it is logged.

    Raises:
        InvalidArgumentError: no id, or an unknown `remember`.
    """

    def __init__(
        self,
        clients: Clients,
        memory: Mapping[str, Any],
        *,
        remember: Remember = "user",
        metadata: Mapping[str, Any] | None = None,
        raise_write_errors: bool = False,
    ) -> None:
        check_remember(remember)
        self._clients = clients
        self._scope = {} if remember == "nothing" else ids_of(memory)
        self._remember = remember
        self._metadata = metadata
        self._raise_write_errors = raise_write_errors

    def write(
        self, asked: Sequence[str], answer: str | None = None, *, turn_id: str | None = None
    ) -> None:
        """Write one turn, blocking.

        Args:
            asked: what the user said in this turn.
            answer: the final answer.
            turn_id: names the turn, for good: writing it again adds nothing. None: nobody writes it
                again (the client's own retries add nothing in any case).

        Raises:
            APIError: the sidecar refused, and `raise_write_errors` is set.
        """
        if added := self._arguments(asked, answer, turn_id):
            try:
                self._clients.call("add", **added)
            except APIError as error:
                self._on_error(error)

    async def awrite(
        self, asked: Sequence[str], answer: str | None = None, *, turn_id: str | None = None
    ) -> None:
        """As `write`, awaiting."""
        if added := self._arguments(asked, answer, turn_id):
            try:
                await self._clients.acall("add", **added)
            except APIError as error:
                self._on_error(error)

    def _arguments(
        self, asked: Sequence[str], answer: str | None, turn_id: str | None
    ) -> dict[str, Any] | None:
        texts = [text for text in asked if text.strip()] if self._remember != "nothing" else []
        if not texts:
            return None
        said: list[Said] = [{"role": "user", "content": text} for text in texts]
        if self._remember == "turn" and answer and answer.strip():
            said.append({"role": "assistant", "content": answer})
        added = {"messages": said, "metadata": self._metadata, **self._scope}
        if turn_id is not None:
            named = json.dumps([self._scope, turn_id, self._metadata, said], default=str)
            digest = hashlib.sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
            added["idempotency_key"] = f"turn-{digest}"
        return added

    def _on_error(self, error: APIError) -> None:
        if self._raise_write_errors:
            raise error
        log.error("a turn was answered, but not remembered: %s", error)
