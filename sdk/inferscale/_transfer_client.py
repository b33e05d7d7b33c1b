"""`export_to` and `import_from` of both clients: one class blocks, the other awaits.

Owns signatures and the reading of a response piece by piece; the rest is in `_transfer`.
"""

import asyncio

from inferscale import _transfer
from inferscale._transfer import ExportResult, File, ImportResult
from inferscale._transport import AsyncTransport, SyncTransport, mapped_exceptions


class TransferMethods:
    """The part of `Memory` that takes everything out, and in again. It needs an admin key."""

    _transport: SyncTransport

    def export_to(
        self,
        target: File,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        vectors: bool = False,
    ) -> ExportResult:
        """Write memories with their histories, blocks, threads and documents as JSON lines.

        Args:
            target: a path, which gets all of it or stays as it was, or a file open for bytes.
            user_id, agent_id, run_id, app_id: whose; without any id all that the tenant keeps.
            vectors: embeddings too: larger, and faster to import.

        Raises:
            PermissionDeniedError: the API key has not the scope admin.
            StreamError: it broke off.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        response = self._transport.call(_transfer.export(scope, vectors=vectors))
        try:
            with _transfer.sink_to(target) as sink:
                with mapped_exceptions(response.url):
                    for piece in response.iter_bytes():
                        sink.take(piece)
                return sink.result()
        finally:
            response.close()

    def import_from(
        self,
        source: File,
        *,
        restore: bool = False,
        skip_invalid: bool = False,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> ImportResult:
        """Store what an export holds and is not here yet; doing it again changes nothing.

        Args:
            source: a path, or a file open for bytes that can be rewound.
            restore: also what was deleted here since.
            skip_invalid: leave bad lines out instead of refusing all.
            dry_run: only say what would be done.
            timeout_s: how long to wait for the sidecar, which embeds all texts anew unless the
                export has vectors. Default: an hour.

        Raises:
            InvalidRequestError: lines that cannot be stored, by their numbers; nothing was.
            PermissionDeniedError: the API key has not the scope admin.
        """
        flags = {"restore": restore, "skip_invalid": skip_invalid, "dry_run": dry_run}
        return self._transport.call(_transfer.import_from(source, flags, timeout_s=timeout_s))


class AsyncTransferMethods:
    """The same for `AsyncMemory`; files are read and written in threads."""

    _transport: AsyncTransport

    async def export_to(
        self,
        target: File,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        vectors: bool = False,
    ) -> ExportResult:
        """As `Memory.export_to`."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        response = await self._transport.call(_transfer.export(scope, vectors=vectors))
        try:
            with _transfer.sink_to(target) as sink:
                with mapped_exceptions(response.url):
                    async for piece in response.aiter_bytes():
                        await asyncio.to_thread(sink.take, piece)
                return sink.result()
        finally:
            await response.aclose()

    async def import_from(
        self,
        source: File,
        *,
        restore: bool = False,
        skip_invalid: bool = False,
        dry_run: bool = False,
        timeout_s: float | None = None,
    ) -> ImportResult:
        """As `Memory.import_from`."""
        flags = {"restore": restore, "skip_invalid": skip_invalid, "dry_run": dry_run}
        return await self._transport.call(_transfer.import_from(source, flags, timeout_s=timeout_s))
