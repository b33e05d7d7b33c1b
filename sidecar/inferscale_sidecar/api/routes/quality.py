"""`/v1/quality-checks`: is injected memory as good as its text on the served model?"""

from typing import Annotated

from fastapi import APIRouter, Depends

from inferscale.protocol.quality import QualityCheckResult
from inferscale_sidecar.api.auth import admin_tenant
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.errors import Unsupported
from inferscale_sidecar.service.quality_gate import QualityGate

Admin = Annotated[Tenant, Depends(admin_tenant)]


def quality_router(gate: QualityGate | None) -> APIRouter:
    """The route over the gate; None where nothing is ever injected."""
    router = APIRouter(tags=["service"])

    @router.post("/v1/quality-checks")
    async def check(tenant: Admin) -> QualityCheckResult:
        if gate is None:
            raise Unsupported(
                "injection is off by the settings or for this model; nothing to check"
            )
        return QualityCheckResult(**(await gate.run()).__dict__)

    return router
