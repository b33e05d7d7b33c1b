"""Limits as HTTP shows them: `RateLimit` fields, and the streams that count until they have ended.

Fields and problem type are those of draft-ietf-httpapi-ratelimit-headers-10.
"""

import math
from contextlib import ExitStack

from starlette.requests import Request

from inferscale_sidecar.core import Tenant
from inferscale_sidecar.errors import QuotaExceeded, RateLimited
from inferscale_sidecar.service.admission import WINDOW_S, Admission, Kind, Standing
from inferscale_sidecar.store.records import Grant

QUOTA_RETRY_S = 3_600
"""Nothing frees a quota but a deletion or a higher limit: no client should stand and wait."""
PROBLEM_TYPE = "https://iana.org/assignments/http-problem-types#quota-exceeded"


def admit(request: Request, grant: Grant, kind: Kind) -> None:
    """Count the request, and say in its response where the tenant stands. Raises RateLimited."""
    admission: Admission = request.app.state.admission
    request.state.limits = grant.limits
    standing = admission.admit(grant.tenant.id, kind, grant.limits)
    if standing is not None:
        request.state.response_headers.update(_fields(standing))


def hold_stream(request: Request, tenant: Tenant) -> None:
    """Count the response as a stream of the tenant until it has ended. Raises RateLimited."""
    limits = getattr(request.state, "limits", None)
    ending: ExitStack | None = getattr(request.state, "ending", None)
    if limits is not None and ending is not None:
        admission: Admission = request.app.state.admission
        ending.enter_context(admission.stream(tenant.id, limits))


def refusal_fields(error: RateLimited | QuotaExceeded) -> dict[str, str]:
    """The headers of a 429."""
    if isinstance(error, QuotaExceeded):
        # OpenAI's clients obey the second field; ours does not wait so long.
        return {"retry-after": str(QUOTA_RETRY_S), "x-should-retry": "false"}
    wait_s = max(1, math.ceil(error.retry_after_s))
    fields = {"retry-after": str(wait_s)}
    if error.window_s is not None:
        kind = error.limit.removesuffix("_per_minute")
        return fields | _fields(Standing(kind, error.value, 0, wait_s))
    if error.limit:
        policy = f'"{error.limit}";q={error.value};qu="concurrent-requests"'
        fields |= {"ratelimit-policy": policy, "ratelimit": f'"{error.limit}";r=0'}
    return fields


def _fields(standing: Standing) -> dict[str, str]:
    name = f'"{standing.policy}"'
    return {
        "ratelimit-policy": f"{name};q={standing.quota};w={WINDOW_S}",
        "ratelimit": f"{name};r={standing.remaining};t={standing.reset_s}",
    }
