"""Sends one build to the engine and reads what it stored.

Owns the shape of build requests; keeps no state.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from inferscale.protocol.engine import PARAMS_FIELD, Capture, Shown, build_params
from inferscale_sidecar.engine.base import Engine
from inferscale_sidecar.engine.settle import settled

BUILD_PRIORITY = 10
"""vLLM's priority (lower goes first): chat requests, at 0, always overtake builds."""


async def send_build(
    engine: Engine,
    ids: Sequence[int],
    *,
    tag: str,
    captures: Sequence[Capture] = (),
    prefix_end: int | None = None,
    cache_salt: str | None = None,
    priority: int = BUILD_PRIORITY,
    shows: Sequence[Shown] = (),
) -> frozenset[str]:
    """Prefills `ids` and has the connector keep slices of their KV.

    Args:
        engine: where to.
        ids: the prompt; at least one token more than the last slice.
        tag: the tenant's tag (`compose.keys.tenant_tag`).
        captures: slices to keep under their keys.
        prefix_end: also keep the first so many tokens as an exact prefix.
        cache_salt: whose prefix cache to share; None: nobody's, so that every token is computed.
        priority: see `BUILD_PRIORITY`.
        shows: texts in it that can be forgotten, if others share its prefix cache.

    Returns:
        The keys that the bank holds now.

    Raises:
        EngineUnavailable: the engine is down; nothing is known about the build.
        EngineError: the engine refused the request.
    """
    request_id = f"build_{secrets.token_hex(12)}"
    body = {
        "model": engine.model,
        "prompt": list(ids),
        "max_tokens": 1,
        "temperature": 0,
        "priority": priority,
        "cache_salt": cache_salt or secrets.token_hex(16),
        "kv_transfer_params": build_params(
            engine.secret,
            request_id=request_id,
            salt=tag,
            captures=captures,
            prefix_end=prefix_end,
            shows=shows,
            is_scratch=cache_salt is None,
        ),
    }
    kept = _kept(await engine.complete(body))
    if kept is None:
        report = await engine.report(request_id)
        kept = (report.stored, report.pending) if report else ((), ())
    return await settled(engine, *kept)


def _kept(answer: Mapping[str, Any]) -> tuple[Sequence[str], Sequence[str]] | None:
    """Keys stored and being written, by the response itself; None if it does not carry them."""
    params = answer.get("kv_transfer_params")
    ours = params.get(PARAMS_FIELD) if isinstance(params, Mapping) else None
    if not isinstance(ours, Mapping) or not isinstance(ours.get("stored"), list):
        return None
    return ours["stored"], ours.get("pending") or ()
