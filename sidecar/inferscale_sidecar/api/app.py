"""`create_app`: routers, error table and boundary, put together. No logic of its own."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import APIRouter, FastAPI

from inferscale._version import __version__
from inferscale_sidecar.api import problem
from inferscale_sidecar.api.middleware import DEFAULT_MAX_BODY_BYTES, Boundary
from inferscale_sidecar.api.routes.blocks import create_block_router
from inferscale_sidecar.api.routes.entities import create_entity_router
from inferscale_sidecar.api.routes.health import Readiness, create_health_router
from inferscale_sidecar.api.routes.memory import create_memory_router
from inferscale_sidecar.api.routes.recall import create_recall_router
from inferscale_sidecar.api.routes.tenant import create_tenant_router
from inferscale_sidecar.api.routes.threads import create_thread_router
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.admission import Admission
from inferscale_sidecar.service.blocks import BlockService
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.service.threads import ThreadService

_TEXT = {"type": "string"}
_ERROR_SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status", "detail", "error"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "limit": _TEXT,
        "value": {"type": "integer"},
        "violated-policies": {"type": "array", "items": _TEXT},
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": _TEXT,
                "type": _TEXT,
                "param": {"type": ["string", "null"]},
                "code": _TEXT,
            },
        },
    },
}
_DOCUMENTED = {
    400: "Invalid request.",
    401: "No API key, or one that is not valid.",
    403: "The API key may not do this.",
    404: "Not found.",
    409: "The state forbids it.",
    413: "Over a limit.",
    429: "Over a limit of the tenant; `Retry-After` says when to try again.",
    500: "The server failed.",
    501: "Not offered by this server.",
    503: "The engine or the database is down; retry.",
}


def create_app(
    *,
    memory: MemoryService,
    recall: RecallService,
    blocks: BlockService,
    threads: ThreadService,
    tenants: TenantService,
    metrics: Metrics,
    readiness: Readiness,
    admission: Admission | None = None,
    extra_routers: Sequence[APIRouter] = (),
    max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None,
) -> FastAPI:
    """The ASGI application.

    Args:
        memory, recall, blocks, threads, tenants: the services behind the routes.
        metrics: what `/metrics` shows.
        readiness: what `/ready` answers.
        admission: counts requests against tenants' limits; a new one if None.
        extra_routers: more routes, matched after ours; a catch-all comes last.
        max_body_bytes: larger bodies are refused with 413.
        lifespan: started and stopped with the application.
    """
    app = FastAPI(
        title="InferScale sidecar",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        responses=_responses(),
    )
    app.state.tenants = tenants
    app.state.admission = admission or Admission(metrics)
    problem.install(app)
    app.add_middleware(Boundary, metrics=metrics, max_body_bytes=max_body_bytes)
    for router in (
        create_health_router(readiness=readiness, metrics=metrics, recall=recall),
        create_memory_router(memory),
        create_entity_router(memory),
        create_recall_router(recall),
        create_block_router(blocks),
        create_thread_router(threads, recall),
        create_tenant_router(tenants),
        *extra_routers,
    ):
        app.include_router(router)
    _document_only_what_happens(app)
    return app


def _responses() -> dict[int | str, dict[str, Any]]:
    content = {problem.MEDIA_TYPE: {"schema": _ERROR_SCHEMA}}
    return {
        status: {"description": text, "content": content} for status, text in _DOCUMENTED.items()
    }


def _document_only_what_happens(app: FastAPI) -> None:
    """FastAPI documents a 422 in its own shape for every route; here that is a 400 in OpenAI's."""
    schema = app.openapi()
    problems = {str(status): answer for status, answer in _responses().items()}
    for path in schema["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
            for status, answer in problems.items():
                shown = operation["responses"].setdefault(status, answer)
                shown.setdefault("content", {}).update(answer["content"])
    for name in ("HTTPValidationError", "ValidationError"):
        schema.get("components", {}).get("schemas", {}).pop(name, None)
