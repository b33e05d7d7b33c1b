"""The port of what the store knows about KV banks, beside those in `base`."""

from collections.abc import Sequence
from typing import Protocol

from inferscale_sidecar.core import Tail


class BankPort(Protocol):
    """Banks by name: `fingerprint`, here and in the other ports, names one bank of one engine.

    Sidecars that share a database each have their own; what one bank holds says nothing about
    another, even of the same model.
    """

    async def bind_bank(self, fingerprint: str) -> bool:
        """This bank is in use, and nothing is being built for it. Repeat it at least daily.

        Banks that were not in use for `GIVEN_UP_AFTER` are given up: what is known of them goes.

        Returns:
            Whether this one was given up before: it may hold what was deleted meanwhile, so the
            caller empties it before it is used, and says so with `bank_emptied`.
        """

    async def bank_emptied(self, fingerprint: str) -> None:
        """A bank that was given up holds nothing any more."""

    async def purge_later(
        self, fingerprint: str, keys: Sequence[str], tenant_id: str, tail: Tail
    ) -> bool:
        """The bank holds these keys of a conversation's end, which are not to stay longer than it
        says, nor than until its scope is forgotten: queued for purge from then on.

        Returns:
            False if the scope, or a wider one, was forgotten after the request came: they are to
            go now.
        """
