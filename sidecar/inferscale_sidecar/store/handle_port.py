"""The port of handles, beside those in `base`; what is said there holds here."""

from datetime import datetime
from typing import Protocol

from inferscale_sidecar.core import Composition


class HandlePort(Protocol):
    """Compositions behind handles."""

    async def put_handle(self, composition: Composition) -> None:
        """Keep a composition until it expires."""

    async def get_handle(self, tenant_id: str, handle_id: str) -> Composition | None:
        """The composition without items deleted or updated since, and without blocks deleted or
        detached since; None if unknown, foreign or expired, which look the same."""

    async def count_handles(self, now: datetime) -> int:
        """Number of handles that have not expired, of all tenants."""
