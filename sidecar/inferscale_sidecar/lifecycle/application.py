"""The HTTP application of a sidecar: which routes there are, over which services."""

from fastapi import FastAPI

from inferscale_sidecar.api.app import create_app
from inferscale_sidecar.api.auth import chatting_tenant
from inferscale_sidecar.api.mcp import McpServer, mcp_route
from inferscale_sidecar.api.routes.chat import chat_router
from inferscale_sidecar.api.routes.documents import create_documents_router
from inferscale_sidecar.api.routes.health import Readiness
from inferscale_sidecar.api.routes.passthrough import passthrough_router
from inferscale_sidecar.api.routes.quality import quality_router
from inferscale_sidecar.api.routes.transfer import create_transfer_router
from inferscale_sidecar.config import Config
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.lifecycle.parts import Services
from inferscale_sidecar.service.write_back import WriteBack


def make_app(
    config: Config, services: Services, engine: Engine, readiness: Readiness, mcp: McpServer | None
) -> FastAPI:
    """The ASGI application with all routes; what no route takes goes to vLLM."""
    write_back = WriteBack(services.memory, default=config.chat.remember)
    app = create_app(
        memory=services.memory,
        recall=services.recall,
        blocks=services.blocks,
        threads=services.threads,
        tenants=services.tenants,
        metrics=services.metrics,
        readiness=readiness,
        extra_routers=(
            create_documents_router(services.documents),
            create_transfer_router(services.transfer),
            chat_router(services.chat, engine, chatting_tenant, write_back),
            quality_router(services.gate),
            passthrough_router(engine, chatting_tenant),
        ),
    )
    if config.mcp.enabled:
        app.router.routes.append(mcp_route(mcp, user_id=config.mcp.user_id))
    return app
