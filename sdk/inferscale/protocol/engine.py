"""What the sidecar says to the connector inside vLLM. Standard library only: vLLM imports it.

Two channels. *Requests* carry `kv_transfer_params["inferscale"]` with an operation, signed with the
secret that the sidecar and the engine share (environment variable `INFERSCALE_ENGINE_SECRET`), so
that no other client of the engine can name items. The *control plane* is an ASGI middleware in
vLLM's API server (`--middleware inferscale_vllm.control.ControlPlane`) under `/inferscale/`.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PROTOCOL_VERSION = 1
PARAMS_FIELD = "inferscale"
SECRET_ENV = "INFERSCALE_ENGINE_SECRET"
SECRET_HEADER = "x-inferscale-secret"

REASONS = (
    "not_requested",  # the client asked for text (`inject: false`)
    "disabled",  # switched off, or the self-test failed
    "unauthenticated",  # signature missing or wrong
    "malformed",  # the operation could not be understood
    "no_items",  # nothing of the composition has KV yet
    "items_missing",  # some KV is not in the bank (not built, evicted, corrupt)
    "items_not_in_prompt",  # the items' token ids do not stand in the rendered prompt
    "prefix_not_captured",  # the tokens before the first item have no exact KV yet
    "native_hit",  # vLLM's own prefix cache already holds them
    "costs_more",  # so few tokens are prefilled faster than injected (measured on this engine)
    "prompt_logprobs",  # vLLM reads no cache for such requests
    "lora",  # the items were encoded with another LoRA adapter, or with none
    "multimodal",
    "prompt_embeds",
    "resumable",
    "unsupported_model",
    "error",  # a bug of ours; logged with a traceback
)
"""Closed list of reasons for which tokens were prefilled instead of injected."""


def sign(secret: str, params: Mapping[str, Any]) -> str:
    """HMAC-SHA256 (hex) over the canonical JSON of `params` without its `auth` field."""
    body = {k: v for k, v in params.items() if k != "auth"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def is_signed(secret: str, params: Mapping[str, Any]) -> bool:
    """Constant-time check of `params["auth"]`. False for anything but a proper signature."""
    given = params.get("auth")
    return isinstance(given, str) and hmac.compare_digest(given, sign(secret, params))


def item_key(
    salt: bytes, model: str, policy: str, context_ids: Sequence[int], item_ids: Sequence[int]
) -> str:
    """Key (64 hex digits) of one encoded item: everything its KV depends on, and whose it is.

    Args:
        salt: the tenant's secret salt; equal texts of two tenants get different keys.
        model: the served model (or LoRA) name. Weights, dtypes and RoPE are the bank's own
            namespace (`inferscale_vllm.fingerprint`), so they are not repeated here.
        policy: name and version of the encode policy.
        context_ids: all token ids before the item in the build prompt (S0 and neighbours).
        item_ids: the item's own token ids.
    """
    digest = hashlib.sha256()
    for part in (salt, model.encode(), policy.encode()):
        digest.update(len(part).to_bytes(4, "little") + part)
    for ids in (context_ids, item_ids):
        digest.update(len(ids).to_bytes(4, "little"))
        digest.update(b"".join(i.to_bytes(4, "little") for i in ids))
    return digest.hexdigest()


@dataclass(frozen=True)
class Capture:
    """One slice of a build prompt whose KV is to be kept: tokens [start, end) under `key`."""

    key: str
    start: int
    end: int


@dataclass(frozen=True)
class Shown:
    """Texts that a prompt shows behind the first occurrence of the token ids `after` (nowhere, or
    none: from its first token on), in this order.

    `texts` are pairs of a name, by which the text is forgotten (`POST /inferscale/items/delete`),
    and the key of its item, by which it can be told where it stands; None if it has none.
    """

    after: tuple[int, ...]
    texts: tuple[tuple[str, str | None], ...]


def inject_params(
    secret: str,
    *,
    request_id: str,
    salt: str,
    items: Sequence[str],
    always: bool = False,
    stays_exact: bool = False,
    shows: Sequence[Shown] = (),
) -> dict[str, Any]:
    """`kv_transfer_params` of a request that carries the items with these keys, in prompt order.

    Args:
        secret: shared with the engine.
        request_id: names the report (`GET /inferscale/reports/{request_id}`).
        salt: opaque tag of the tenant (hex); exact prefixes are never shared across salts.
        items: item keys (64 hex digits each) in the order in which their text stands in the prompt.
        always: inject even what would be prefilled faster (checks and tests).
        stays_exact: where exact KV is found for all but the last, unfilled block of the items,
            compute the rest instead of injecting it.
        shows: all texts that can be forgotten and stand in the prompt, injected or not.
    """
    body = {"op": "inject", "request_id": request_id, "salt": salt, "items": list(items)}
    flags = {"always": always, "stays_exact": stays_exact}
    return _params(
        secret, body | {k: True for k, is_set in flags.items() if is_set} | _shows(shows)
    )


def show_params(
    secret: str, *, request_id: str, salt: str, shows: Sequence[Shown]
) -> dict[str, Any]:
    """`kv_transfer_params` of a request that is nothing but text, and shows some that can be
    forgotten. Arguments as in `inject_params`."""
    body = {"op": "show", "request_id": request_id, "salt": salt}
    return _params(secret, body | _shows(shows))


def build_params(
    secret: str,
    *,
    request_id: str,
    salt: str,
    captures: Sequence[Capture],
    prefix_end: int | None = None,
    shows: Sequence[Shown] = (),
    is_scratch: bool = False,
) -> dict[str, Any]:
    """`kv_transfer_params` of a build: capture these slices, and optionally the exact prefix.

    Args:
        secret, request_id, salt: as in `inject_params`.
        captures: slices of the prompt to store, ascending and disjoint.
        prefix_end: if given, tokens [0, prefix_end) are kept as an exact prefix, so that a later
            request with the same leading tokens can be injected from its very first item on.
        shows: as in `inject_params`.
        is_scratch: nobody will ask for this prompt again; its blocks leave vLLM's prefix cache
            when it ends.
    """
    body: dict[str, Any] = {
        "op": "build",
        "request_id": request_id,
        "salt": salt,
        "captures": [[c.key, c.start, c.end] for c in captures],
    }
    if prefix_end is not None:
        body["prefix_end"] = prefix_end
    return _params(secret, body | ({"scratch": True} if is_scratch else {}) | _shows(shows))


def _shows(shows: Sequence[Shown]) -> dict[str, Any]:
    frames = [{"after": list(s.after), "texts": [list(t) for t in s.texts]} for s in shows]
    return {"shows": frames} if frames else {}


def _params(secret: str, body: dict[str, Any]) -> dict[str, Any]:
    body = {"v": PROTOCOL_VERSION, **body}
    return {PARAMS_FIELD: {**body, "auth": sign(secret, body)}}


@dataclass(frozen=True)
class EngineReport:
    """What the connector did with one request (`GET /inferscale/reports/{request_id}`).

    `injected + native + prefilled == prompt` once the request was admitted. `stored` lists the keys
    of a build that are durably in the bank; `pending` those that are still being written: ask
    `POST /inferscale/items/query` again until they are in its `present`, or no longer `pending`.
    """

    request_id: str
    op: str
    prompt: int
    injected: int
    native: int
    prefilled: int
    reason: str | None
    stored: tuple[str, ...] = ()
    max_error: float | None = None
    """Self-test only: largest absolute difference that the connector measured."""
    pending: tuple[str, ...] = ()
    crowded_steps: int = 0
    """Of the engine until now: steps that computed more than one request. If two reports say the
    same, nothing stood in a batch with what ran between them."""
