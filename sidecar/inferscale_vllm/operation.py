"""Parses what a request asks of the connector. Owns validation: nothing past this module sees raw
input.

The dictionary arrives from the network inside a sampling parameter, so every field is checked, and
the signature first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from inferscale.protocol.engine import PARAMS_FIELD, PROTOCOL_VERSION, Capture, is_signed

MAX_ITEMS = 4_096
_MAX_ID_CHARS = 128


class Refused(Exception):
    """The operation is not carried out; the request is served as plain text. `reason` is from
    `REASONS`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


@dataclass(frozen=True)
class Inject:
    """Use the KV of these items where their tokens stand in the prompt; `always`: even if
    prefilling them were faster."""

    request_id: str
    salt: str
    items: tuple[str, ...]
    always: bool = False


@dataclass(frozen=True)
class Build:
    """Keep the KV of these slices of the prompt, and of its first `prefix_end` tokens."""

    request_id: str
    salt: str
    captures: tuple[Capture, ...]
    prefix_end: int | None


Operation = Inject | Build


def parse(params: Mapping[str, Any] | None, *, secret: str | None) -> Operation | None:
    """The operation in a request's `kv_transfer_params`, or None if it asks nothing of us.

    Raises:
        Refused: unsigned or malformed.
    """
    body = (params or {}).get(PARAMS_FIELD)
    if body is None:
        return None
    if not isinstance(body, Mapping):
        raise Refused("malformed", f"{PARAMS_FIELD} is {type(body).__name__}, not an object")
    if secret is None or not is_signed(secret, body):
        raise Refused("unauthenticated")
    if body.get("v") != PROTOCOL_VERSION:
        raise Refused("malformed", f"protocol version {body.get('v')!r}, not {PROTOCOL_VERSION}")
    request_id, salt = _text(body, "request_id"), _text(body, "salt")
    match body.get("op"):
        case "inject":
            keys = tuple(_key(k) for k in _list(body, "items"))
            return Inject(request_id, salt, keys, always=body.get("always") is True)
        case "build":
            captures = tuple(_capture(c) for c in _list(body, "captures"))
            _check_ascending(captures)
            return Build(request_id, salt, captures, _prefix_end(body.get("prefix_end")))
    raise Refused("malformed", f"unknown op {body.get('op')!r}")


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_ID_CHARS:
        raise Refused("malformed", f"{name} must be a string of 1 to {_MAX_ID_CHARS} characters")
    return value


def _list(body: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = body.get(name)
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise Refused("malformed", f"{name} must be a list of at most {MAX_ITEMS} entries")
    return value


def _key(value: Any) -> str:
    if isinstance(value, str) and len(value) == 64:
        try:
            return bytes.fromhex(value).hex()
        except ValueError:
            pass
    raise Refused("malformed", f"item key {value!r:.80} is not 64 hex digits")


def _capture(value: Any) -> Capture:
    match value:
        case [str(), int(start), int(end)] if 0 <= start < end:
            return Capture(_key(value[0]), start, end)
    raise Refused("malformed", f"capture {value!r:.120} is not [key, start, end]")


def _check_ascending(captures: Sequence[Capture]) -> None:
    for before, after in pairwise(captures):
        if after.start < before.end:
            raise Refused("malformed", f"captures overlap at token {after.start}")


def _prefix_end(value: Any) -> int | None:
    if value is None or (isinstance(value, int) and value > 0):
        return value
    raise Refused("malformed", f"prefix_end {value!r} is not a positive token count")
