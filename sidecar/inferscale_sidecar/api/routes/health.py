"""`/health`, `/ready`, `/metrics`, `/version`: for orchestrators; no key, no tenant's data."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from fastapi import APIRouter
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from inferscale._version import __version__
from inferscale_sidecar.errors import StoreUnavailable
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.recall import RecallService


@dataclass(frozen=True)
class ReadyState:
    """Whether requests can be served, and the state of each part, e.g. `{"engine": "starting"}`."""

    is_ready: bool
    parts: Mapping[str, str] = field(default_factory=dict)


Readiness = Callable[[], ReadyState]


def create_health_router(
    *, readiness: Readiness, metrics: Metrics, recall: RecallService
) -> APIRouter:
    """The routes. `readiness` is asked on every call; it must not block."""
    router = APIRouter(tags=["service"])

    @router.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @router.get("/ready", responses={503: {"description": "Not ready; `parts` says why."}})
    async def ready() -> JSONResponse:
        state = readiness()
        body = {"status": "ready" if state.is_ready else "not_ready", "parts": dict(state.parts)}
        return JSONResponse(body, 200 if state.is_ready else 503)

    @router.get("/version")
    async def version() -> dict[str, str]:
        return {"version": __version__}

    @router.get("/metrics", response_class=Response)
    async def scrape(request: Request) -> Response:
        with suppress(StoreUnavailable):  # then the last number stands
            metrics.handles_active.set(await recall.count_handles())
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encode(metrics.registry), headers={"content-type": content_type})

    return router
