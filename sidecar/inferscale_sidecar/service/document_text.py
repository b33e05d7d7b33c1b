"""What a document may hold, and which of its texts are embedded: paths into JSON, as LangGraph's
stores spell them.

`a.b` field of a field, `a[0]` and `a[-1]` an element, `a[*]` and `*` all of them, `{a,b.c}` several
fields, `$` or an empty path the whole document as JSON. What a path does not find is no text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from inferscale.protocol.document import MAX_VALUE_BYTES
from inferscale_sidecar.errors import InvalidInput, TooLarge

MAX_TEXTS = 256
_TOKEN = re.compile(r"\[[^\[\]]*\]|\{[^{}]*\}|[^.\[\]{}]+")


def check_value(value: dict[str, Any]) -> None:
    """Raises InvalidInput or TooLarge for what the store, or an answer, could not hold."""
    try:
        size = len(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        what = "a lone surrogate" if isinstance(error, UnicodeError) else "what JSON has not"
        raise InvalidInput(f"value contains {what}; send valid JSON", param="value") from error
    if size > MAX_VALUE_BYTES:
        raise TooLarge(
            f"value has {size} bytes, the limit is {MAX_VALUE_BYTES}; split the document",
            param="value",
        )


def texts_at(value: dict[str, Any], paths: Sequence[str]) -> list[str]:
    """The texts at all paths, in order.

    Raises:
        InvalidInput: more than `MAX_TEXTS`.
    """
    found = [text for path in paths for text in _at(value, path)]
    if len(found) > MAX_TEXTS:
        raise InvalidInput(
            f"index: the paths find {len(found)} texts in one document, the limit is {MAX_TEXTS}; "
            "index fewer, or put them into several documents",
            param="index",
        )
    return found


def _at(value: Any, path: str) -> list[str]:
    if path in ("", "$"):
        return [_json(value)]
    return list(_walk(value, _TOKEN.findall(path)))


def _walk(value: Any, tokens: Sequence[str]) -> Iterator[str]:
    if not tokens:
        yield from _text(value)
        return
    token, rest = tokens[0], tokens[1:]
    if token.startswith("{"):
        for path in token[1:-1].split(","):
            yield from _text(_field(value, path.strip()))
        return
    for each in _step(value, token):
        yield from _walk(each, rest)


def _step(value: Any, token: str) -> list[Any]:
    """What one token leads to."""
    if token.startswith("["):
        if not isinstance(value, list):
            return []
        return value if token == "[*]" else _element(value, token[1:-1])
    if token == "*":
        return list(value.values()) if isinstance(value, dict) else _list(value)
    return [value[token]] if isinstance(value, dict) and token in value else []


def _element(value: list[Any], index: str) -> list[Any]:
    if not re.fullmatch(r"-?\d{1,9}", index):
        return []
    at = int(index)
    return [value[at]] if -len(value) <= at < len(value) else []


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _field(value: Any, path: str) -> Any:
    for name in _TOKEN.findall(path):
        value = value.get(name) if isinstance(value, dict) else None
    return value if path else None


def _text(value: Any) -> list[str]:
    if value is None:
        return []
    return [_json(value)] if isinstance(value, list | dict) else [str(value)]


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
