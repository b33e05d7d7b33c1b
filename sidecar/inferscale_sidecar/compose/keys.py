"""What is derived from a tenant's secret salt: cache salts, tags and item salts.

Invariant: nothing here can be computed, and no value of one tenant ever met, without that tenant's
salt.
"""

import hashlib
import hmac

from inferscale_sidecar.core import BuildItem, Tenant

POLICY = "list-v3"
"""Version of how items are encoded, whatever the policy; the policy's name goes beside it. Raise it
when the frame or the made-up items change.
"""


def cache_salt(tenant: Tenant, own: str | None = None) -> str:
    """vLLM's `cache_salt` for a tenant's requests (64 hex digits).

    Args:
        tenant: whose requests.
        own: the client's own `cache_salt`, which still separates its requests from each other.
    """
    return _mac(tenant, b"cache", (own or "").encode("utf-8", "surrogatepass"))


def tenant_tag(tenant: Tenant) -> str:
    """Opaque name of the tenant for the connector (64 hex digits)."""
    return _mac(tenant, b"tag", b"")


def item_salt(tenant: Tenant, item: BuildItem) -> bytes:
    """Salt of one memory version: equal texts of two memories get different keys.

    So a key belongs to one memory only, and purging a deleted one can never take another's KV.
    """
    return bytes.fromhex(_mac(tenant, b"item", f"{item.memory_id}\x00{item.version}".encode()))


def _mac(tenant: Tenant, purpose: bytes, value: bytes) -> str:
    return hmac.new(tenant.salt, purpose + b"\x00" + value, hashlib.sha256).hexdigest()
