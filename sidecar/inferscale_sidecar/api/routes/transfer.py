"""`/v1/export` and `/v1/import`: JSON lines, as they come, for callers with the scope admin.

Owns what is kept of a body while it is read: a file, not memory.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import Annotated, Any, BinaryIO

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from inferscale.protocol import memory as wire
from inferscale.protocol.transfer import MEDIA_TYPE, ImportResponse
from inferscale_sidecar.api.auth import admin_tenant
from inferscale_sidecar.api.routes.memory import to_scope
from inferscale_sidecar.core import Scope, Tenant
from inferscale_sidecar.errors import TooLarge
from inferscale_sidecar.service.transfer import TransferService
from inferscale_sidecar.service.transfer_file import ExportFile
from inferscale_sidecar.service.transfer_import import ImportOptions

Admin = Annotated[Tenant, Depends(admin_tenant)]

MAX_IMPORT_BYTES = 4 * 2**30
_LINES: dict[str, Any] = {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}


class ExportQuery(wire.Scope):
    """Query of `GET /v1/export`. Without ids the whole tenant is exported."""

    vectors: bool = False


class ImportQuery(wire.Wire):
    """Query of `POST /v1/import`."""

    restore: bool = False
    skip_invalid: bool = False
    dry_run: bool = False


def create_transfer_router(transfer: TransferService) -> APIRouter:
    """The routes over one service."""
    router = APIRouter(tags=["transfer"])

    @router.get(
        "/v1/export",
        response_class=StreamingResponse,
        responses={200: {"description": "Lines of an export.", **_LINES}},
    )
    async def export(query: Annotated[ExportQuery, Query()], tenant: Admin) -> StreamingResponse:
        scope = to_scope(query)
        lines = transfer.export(
            tenant, scope if scope != Scope() else None, with_vectors=query.vectors
        )
        return StreamingResponse(lines, media_type=MEDIA_TYPE)

    @router.post("/v1/import", openapi_extra={"requestBody": {"required": True, **_LINES}})
    async def import_lines(
        request: Request, query: Annotated[ImportQuery, Query()], tenant: Admin
    ) -> ImportResponse:
        options = ImportOptions(
            restore=query.restore, skip_invalid=query.skip_invalid, dry_run=query.dry_run
        )
        async with _received(request) as file:
            return await transfer.import_from(tenant, ExportFile(file), options)

    return router


@asynccontextmanager
async def _received(request: Request) -> AsyncIterator[BinaryIO]:
    size_bytes = 0
    with TemporaryFile() as file:
        async for chunk in request.stream():
            size_bytes += len(chunk)
            if size_bytes > MAX_IMPORT_BYTES:
                raise TooLarge(
                    f"the export is larger than {MAX_IMPORT_BYTES} bytes; import it with "
                    "`inferscale-sidecar import`"
                )
            file.write(chunk)
        yield file
