"""From a request to a tenant. Identity comes from the API key, never from the body.

Owns the reading of headers and what counts as "from this machine". Invariant: a request that a
browser made for a foreign page, or that a proxy passed on, is never taken for the machine's owner.
"""

import ipaddress
from collections.abc import Awaitable, Callable

from starlette.requests import Request

from inferscale_sidecar.api.limits import admit
from inferscale_sidecar.core import Tenant
from inferscale_sidecar.errors import Unauthenticated
from inferscale_sidecar.service.admission import Kind
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.store.records import Grant, KeyScope

_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_OWN_PAGES = ("same-origin", "none")
EVIDENCE = frozenset({"authorization", "x-api-key", "host", "sec-fetch-site", *_PROXY_HEADERS})
"""All headers that decide who is asking. Who acts for a caller passes on these, and no others."""


async def current_tenant(request: Request) -> Tenant:
    """FastAPI dependency: who is asking, with the right to read. Also at `request.state.tenant`.

    Raises:
        Unauthenticated, PermissionDenied: see `TenantService`.
        RateLimited: see `Admission`.
    """
    return (await _authorize(request, "read", "read")).tenant


async def known_tenant(request: Request) -> Tenant:
    """The same, for what only passes on: what it asks for is counted against limits, not it."""
    tenants: TenantService = request.app.state.tenants
    grant = await tenants.authenticate(_secret(request), is_local=is_local(request))
    request.state.tenant = grant.tenant
    tenants.require(grant, "read")
    return grant.tenant


async def writing_tenant(request: Request) -> Tenant:
    """The same, with the right to write."""
    return (await _authorize(request, "write", "write")).tenant


async def chatting_tenant(request: Request) -> Tenant:
    """The same, with the right to ask the model; what only looks something up is a read."""
    kind: Kind = "read" if request.method in ("GET", "HEAD", "OPTIONS") else "chat"
    return (await _authorize(request, "write", kind)).tenant


async def admin_tenant(request: Request) -> Tenant:
    """The same, with the right to manage keys."""
    kind: Kind = "read" if request.method == "GET" else "write"
    return (await _authorize(request, "admin", kind)).tenant


TenantDependency = Callable[[Request], Awaitable[Tenant]]


async def _authorize(request: Request, scope: KeyScope, kind: Kind) -> Grant:
    tenants: TenantService = request.app.state.tenants
    grant = await tenants.authenticate(_secret(request), is_local=is_local(request))
    request.state.tenant = grant.tenant
    tenants.require(grant, scope)
    admit(request, grant, kind)
    return grant


def _secret(request: Request) -> str | None:
    """The key, from `Authorization: Bearer` as OpenAI clients send it, or from `X-API-Key`.

    A client that must send something but has no key sends the empty string; that is no key.
    """
    header = request.headers.get("authorization")
    if header is None:
        return request.headers.get("x-api-key") or None
    kind, _, secret = header.partition(" ")
    if kind.lower() != "bearer":
        raise Unauthenticated(
            "the Authorization header must be 'Bearer <key>'; other schemes are not supported"
        )
    return secret.strip() or None


def is_local(request: Request) -> bool:
    """True if a program on this machine sent the request for itself."""
    headers = request.headers
    if any(name in headers for name in _PROXY_HEADERS):
        return False
    if headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
        return False
    # A foreign page can point its own host name at 127.0.0.1, but cannot hide that name.
    return _is_loopback(request.client.host if request.client else "") and _is_loopback(
        request.url.hostname or ""
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
