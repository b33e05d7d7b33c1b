"""What sections of settings are made of: the base of each, and types of values."""

import re
import shlex
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_UNITS = {"": 1, **{unit: 10 ** (3 * i) for i, unit in enumerate("kmgt", 1)}}
_UNITS |= {unit + "i": 2 ** (10 * i) for i, unit in enumerate("kmgt", 1)}


def _parse_size(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?i?)b?\s*", value.lower())
    unit = _UNITS.get(match[2]) if match else None
    if match is None or unit is None:
        raise ValueError("a size is bytes or a number with a unit, such as 512MiB or 8GB")
    return int(match[1]) * unit


def _parse_words(value: Any) -> Any:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


ByteSize = Annotated[int, BeforeValidator(_parse_size)]
Words = Annotated[tuple[str, ...], BeforeValidator(_parse_words)]
Seconds = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A section: complete, frozen, and without unknown names."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
