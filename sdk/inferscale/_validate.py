"""Arguments checked before anything is sent, with the wire's own rules.

Owns how a violation is worded. Invariant: messages never repeat a memory's text.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from inferscale.errors import InvalidArgumentError


def explain(error: ValidationError) -> str:
    """The violations in one line, without the values (they may be someone's memory)."""
    return "; ".join(
        ": ".join(filter(None, (".".join(map(str, item["loc"])), item["msg"])))
        for item in error.errors(include_url=False, include_input=False)
    )


def encode_model(
    model: type[BaseModel], fields: Mapping[str, Any], *, nulls: Sequence[str] = ()
) -> bytes:
    """JSON of `model`, holding exactly those `fields` that are not None, and `nulls` as null.

    Raises:
        InvalidArgumentError: a field breaks the wire's rules or is not JSON.
    """
    given = {name: value for name, value in fields.items() if value is not None}
    given |= dict.fromkeys(nulls)
    try:
        body = model.model_validate(given).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise InvalidArgumentError(f"{explain(error)}.") from None
    return encode_json(body)


def encode_json(body: Mapping[str, Any]) -> bytes:
    """UTF-8 JSON. Models inside are written out; anything else that is not JSON is an error.

    Raises:
        InvalidArgumentError: NaN, a lone surrogate, or an object that JSON does not have.
    """
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, default=_plain)
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"text contains a lone surrogate ({error.object[error.start]!a}); send valid Unicode."
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the request cannot be written as JSON: {error}.") from None


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not a JSON type")


def path_id(memory_id: str) -> str:
    """`memory_id` as one segment of a URL path.

    Raises:
        InvalidArgumentError: it would address something other than one memory.
    """
    # An empty segment addresses the collection, and clients resolve dot segments before sending.
    if not isinstance(memory_id, str) or memory_id.strip() in ("", ".", ".."):
        raise InvalidArgumentError(f"{memory_id!r} is not an id; pass the 'id' of a result.")
    try:
        return quote(memory_id, safe="")
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"id {memory_id!a} contains a lone surrogate.") from None
