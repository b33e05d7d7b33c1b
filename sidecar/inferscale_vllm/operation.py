"""Parses what a request asks of the connector. Owns validation: nothing past this module sees raw
input.

The dictionary arrives from the network inside a sampling parameter, so every field is checked, and
the signature first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from inferscale.protocol.engine import PARAMS_FIELD, PROTOCOL_VERSION, Capture, Shown, is_signed

MAX_ITEMS = 4_096
_MAX_ID_CHARS = 128
_MAX_NAME_CHARS = 64
_MAX_AFTER = 64


class Refused(Exception):
    """The operation is not carried out; the request is served as plain text. `reason` is from
    `REASONS`."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason


@dataclass(frozen=True)
class Inject:
    """Use the KV of these items where their tokens stand in the prompt; `always`: even if
    prefilling them were faster; `stays_exact`: not behind exact KV that lacks less than a block of
    them."""

    request_id: str
    salt: str
    items: tuple[str, ...]
    always: bool = False
    stays_exact: bool = False
    shows: tuple[Shown, ...] = ()


@dataclass(frozen=True)
class Build:
    """Keep the KV of these slices of the prompt, and of its first `prefix_end` tokens; nothing of a
    scratch one stays in vLLM's prefix cache."""

    request_id: str
    salt: str
    captures: tuple[Capture, ...]
    prefix_end: int | None
    shows: tuple[Shown, ...] = ()
    is_scratch: bool = False


@dataclass(frozen=True)
class Show:
    """Serve this prompt as text; these are the texts in it that can be forgotten."""

    request_id: str
    salt: str
    shows: tuple[Shown, ...]


Operation = Inject | Build | Show


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
    shows = tuple(_shown(s) for s in _list(body, "shows")) if "shows" in body else ()
    match body.get("op"):
        case "show":
            return Show(request_id, salt, shows)
        case "inject":
            keys = tuple(_key(k) for k in _list(body, "items"))
            flags = {name: body.get(name) is True for name in ("always", "stays_exact")}
            return Inject(request_id, salt, keys, **flags, shows=shows)
        case "build":
            captures = tuple(_capture(c) for c in _list(body, "captures"))
            _check_ascending(captures)
            end, is_scratch = _prefix_end(body.get("prefix_end")), body.get("scratch") is True
            return Build(request_id, salt, captures, end, shows, is_scratch)
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


def _shown(value: Any) -> Shown:
    match value:
        case {"after": list(after), "texts": list(texts)} if (
            len(after) <= _MAX_AFTER
            and len(texts) <= MAX_ITEMS
            and all(isinstance(token, int) and 0 <= token < 2**31 for token in after)
        ):
            return Shown(tuple(after), tuple(_shown_text(text) for text in texts))
    raise Refused("malformed", f"{value!r:.120} is not {{after: [token id], texts: [[name, key]]}}")


def _shown_text(value: Any) -> tuple[str, str | None]:
    match value:
        case [str(name), key] if is_text_name(name):
            return name, None if key is None else _key(key)
    raise Refused("malformed", f"text {value!r:.120} is not [name, key]")


def is_text_name(name: Any) -> bool:
    """Whether this may name a text that can be forgotten."""
    return isinstance(name, str) and 0 < len(name) <= _MAX_NAME_CHARS and name.isprintable()


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
