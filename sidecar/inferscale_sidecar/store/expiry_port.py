"""The port of expiry, beside those in `base`; what is said there holds here."""

from datetime import datetime
from typing import Protocol

from inferscale_sidecar.store.records import Removed


class ExpiryPort(Protocol):
    """Taking away what has expired, of all tenants. Any number of processes may do it at once."""

    async def drop_expired_kv(self, now: datetime) -> int:
        """Queue for purge the KV of what has expired, and of what was encoded behind it.

        Returns:
            How many items went.
        """

    async def sweep_expired(self, until: datetime, *, limit: int) -> Removed:
        """Remove, as a deletion would, at most `limit` memories that had expired by `until`.

        With a fact go the messages that it was extracted from. Its history ends with EXPIRE.
        """
