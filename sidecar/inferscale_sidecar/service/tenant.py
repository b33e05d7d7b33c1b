"""Who is asking: API keys, what they allow, and the machine's owner without one.

Invariant: a secret is seen once, when it is made; afterwards there is only its SHA-256.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Literal

from inferscale_sidecar.core import Tenant
from inferscale_sidecar.errors import InvalidInput, NotFound, PermissionDenied, Unauthenticated
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.store.records import DEFAULT_TENANT, ApiKey, Grant, KeyScope, Usage
from inferscale_sidecar.store.tenant_port import TenantPort

AuthMode = Literal["auto", "required"]
"""auto: callers on this machine need no key until the first key is made."""

KEY_PREFIX = "isk_"
KEY_SCOPES: tuple[KeyScope, ...] = ("read", "write", "admin")
LIMITS = tuple(field.name for field in fields(Limits))
MAX_NAME_CHARS = 256
MAX_LIMIT = 2**53
_CACHE_S = 1.0
_CACHE_SIZE = 10_000


class TenantService:
    """Authenticates callers and keeps the keys.

    Args:
        store: where tenants and keys are.
        metrics: where refusals are counted.
        auth: whether callers on this machine may do without a key.
        monotonic: seconds, for the cache of grants: a revoked key is refused within a second.
    """

    def __init__(
        self,
        store: TenantPort,
        metrics: Metrics,
        *,
        auth: AuthMode = "auto",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._auth = auth
        self._now = monotonic
        self._grants: dict[str, tuple[float, Grant]] = {}
        self._keyless: tuple[float, Grant | None] = (-1.0, None)

    async def authenticate(self, secret: str | None, *, is_local: bool) -> Grant:
        """What the caller may do.

        While no key has ever been made, a program on this machine needs none, and what is not even
        of our keys' form is not taken for one: OpenAI clients must send something.

        Args:
            secret: the API key presented, if any.
            is_local: the request surely comes from a program on this machine.

        Raises:
            Unauthenticated: no key where one is needed, or one that is unknown or revoked.
        """
        keyless = await self._keyless_grant() if is_local else None
        if secret is not None and (keyless is None or secret.startswith(KEY_PREFIX)):
            return await self._grant_of(secret)
        if keyless is not None:
            return keyless
        self._metrics.auth_failures.labels("missing").inc()
        raise Unauthenticated(
            "no API key given; send the header 'Authorization: Bearer <key>'. Make one with "
            "'inferscale-sidecar keys create'"
        )

    def require(self, grant: Grant, scope: KeyScope) -> None:
        """Raises PermissionDenied unless the grant covers `scope`; admin covers everything."""
        if scope not in grant.scopes and "admin" not in grant.scopes:
            self._metrics.auth_failures.labels("forbidden").inc()
            held = ", ".join(sorted(grant.scopes))
            raise PermissionDenied(f"this needs the scope {scope}; the API key has: {held}")

    async def create_tenant(self, name: str) -> Tenant:
        """Raises InvalidInput for a bad name, Conflict for one that is taken."""
        return await self._store.create_tenant(_check_name(name))

    async def list_tenants(self) -> Sequence[Tenant]:
        """All tenants, oldest first."""
        return await self._store.list_tenants()

    async def set_limits(self, tenant_id: str, changes: Mapping[str, int | None]) -> None:
        """Set limits of a tenant by name (of `LIMITS`); a running sidecar follows in a second.

        Args:
            changes: 0 is no limit, None the server's default.

        Raises:
            InvalidInput: unknown name or negative value. NotFound: no such tenant.
        """
        for name, value in changes.items():
            if name not in LIMITS or not 0 <= (value or 0) <= MAX_LIMIT:
                raise InvalidInput(
                    f"limit {name[:64]!a} = {value} cannot be set; a limit is one of "
                    f"{', '.join(LIMITS)}, and at least 0",
                    param=name[:64],
                )
        await self._store.set_limits(tenant_id, changes)
        self._forget_cached()

    async def limits(self, tenant_id: str) -> tuple[Limits, Mapping[str, int], Usage]:
        """What holds for a tenant, what of it is set for it alone, and what it uses.

        Raises:
            NotFound: no such tenant.
        """
        usage = await self._store.usage(tenant_id)
        own = await self._store.own_limits(tenant_id)
        return await self._store.limits(tenant_id), own, usage

    async def create_key(
        self, tenant_id: str, *, name: str, scopes: Iterable[str] = ("read", "write")
    ) -> tuple[str, ApiKey]:
        """Make a key.

        Args:
            tenant_id: whose memory it opens.
            name: for people to tell keys apart.
            scopes: of `KEY_SCOPES`, at least one.

        Returns:
            The secret, which cannot be had again, and its record.

        Raises:
            InvalidInput: bad name or scope. NotFound: no such tenant.
        """
        wanted = set(scopes)
        chosen = frozenset(scope for scope in KEY_SCOPES if scope in wanted)
        if not wanted or len(chosen) != len(wanted):
            raise InvalidInput(
                f"scopes must be one or more of {', '.join(KEY_SCOPES)}", param="scopes"
            )
        secret = KEY_PREFIX + secrets.token_urlsafe(32)
        key = await self._store.create_key(
            tenant_id,
            name=_check_name(name),
            prefix=secret[: len(KEY_PREFIX) + 4],
            key_hash=_digest(secret),
            scopes=chosen,
        )
        self._forget_cached()
        return secret, key

    async def list_keys(self, tenant_id: str) -> Sequence[ApiKey]:
        """The tenant's keys, oldest first, revoked ones too."""
        return await self._store.list_keys(tenant_id)

    async def revoke_key(self, tenant_id: str, key_id: str) -> None:
        """Refuse a key from now on. Raises NotFound."""
        if not await self._store.revoke_key(tenant_id, key_id):
            raise NotFound(f"no valid key {key_id[:64]!a}; list the keys to see their ids")
        self._forget_cached()

    async def _grant_of(self, secret: str) -> Grant:
        digest = _digest(secret)
        cached = self._grants.get(digest)
        if cached and self._now() - cached[0] < _CACHE_S:
            return cached[1]
        asked_at = self._now()
        grant = await self._store.get_tenant_by_key_hash(digest)
        if grant is None:
            self._grants.pop(digest, None)
            self._metrics.auth_failures.labels("unknown").inc()
            raise Unauthenticated("the API key is not valid; it is unknown or was revoked")
        if len(self._grants) >= _CACHE_SIZE:
            self._grants.clear()
        self._grants[digest] = (asked_at, grant)
        return grant

    async def _keyless_grant(self) -> Grant | None:
        """What callers on this machine get without a key; None if they get nothing."""
        if self._auth == "required":
            return None
        asked_at, grant = self._keyless
        if asked_at >= 0 and self._now() - asked_at < _CACHE_S:
            return grant
        asked_at = self._now()
        tenant = None if await self._store.has_keys() else await self._owner()
        grant = None
        if tenant is not None:
            limits = await self._store.limits(tenant.id)
            grant = Grant(tenant, frozenset(KEY_SCOPES), limits)
        self._keyless = (asked_at, grant)
        return grant

    async def _owner(self) -> Tenant | None:
        return await self._store.get_tenant(DEFAULT_TENANT)

    def _forget_cached(self) -> None:
        self._grants.clear()
        self._keyless = (-1.0, None)


def _digest(secret: str) -> str:
    # Keys are 256 random bits: a plain digest cannot be searched, and costs no time per request.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _check_name(name: str) -> str:
    if not name.strip() or len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise InvalidInput(
            f"a name must be 1 to {MAX_NAME_CHARS} printable characters, not blank", param="name"
        )
    return name
