"""Reads an extraction model's answer, however it is wrapped: models do not all obey a schema.

Tolerated: code fences, thinking before the answer, chatter around it, a bare list, strings instead
of objects, other names for the list. What holds no JSON at all is a failure, never "no facts".
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from inferscale_sidecar.extract.base import ExtractionFailed

_THINKING = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_LIST_NAMES = ("facts", "sentences", "memory", "memories", "results")
_TEXT_NAMES = ("text", "fact", "memory", "content")


class CutOff(ExtractionFailed):
    """The answer ends in the middle of its JSON. `claims` are those that are whole."""

    def __init__(self, answer: str, claims: "list[Claim]") -> None:
        super().__init__(
            f"the extraction model's answer is cut off after {len(answer)} characters; raise "
            "extract.max_tokens",
            code="extraction_unusable",
        )
        self.claims = claims


@dataclass(frozen=True)
class Claim:
    """What a model says: a sentence, and where it has it from, unchecked."""

    text: str
    turns: tuple[int, ...]


def read_claims(answer: str) -> list[Claim]:
    """The claims in an answer.

    Raises:
        CutOff: the answer ends too early.
        ExtractionFailed: it is not the JSON that was asked for.
    """
    text = _THINKING.sub("", answer)
    if _ends_inside(text):
        raise CutOff(answer, _whole_claims(text))
    found = read_json(answer)
    if isinstance(found, dict):
        found = next((found[name] for name in _LIST_NAMES if name in found), None)
    if isinstance(found, dict | str):
        found = [found]
    if not isinstance(found, list):
        raise ExtractionFailed(
            f"the extraction model did not answer with a list of facts: {answer[:200]!r}",
            code="extraction_unusable",
        )
    return [claim for each in found if (claim := _claim(each)) is not None]


def read_json(answer: str) -> Any:
    """The first JSON object or list in an answer; None if there is none."""
    return next(_json_values(_THINKING.sub("", answer)), None)


def _json_values(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    for start in re.finditer(r"[\[{]", text):
        try:
            yield decoder.raw_decode(text, start.start())[0]
        except ValueError:
            continue
        return


def _ends_inside(text: str) -> bool:
    """True if a bracket or a string that JSON opens first is never closed."""
    first = re.search(r"[\[{]", text)
    depth, quoted, escaped = 0, False, False
    for char in text[first.start() :] if first else "":
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        else:
            depth += (char in "[{") - (char in "]}")
            if depth == 0:
                return False
    return depth > 0


def _whole_claims(text: str) -> list[Claim]:
    """The claims of an answer that is cut off, without the one that it breaks off in."""
    decoder, claims = json.JSONDecoder(), []
    at = min(text.find(bracket) for bracket in "[{" if bracket in text)
    while (at := text.find("{", at + 1)) >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
        except ValueError:
            continue
        at = end - 1
        if (claim := _claim(value)) is not None:
            claims.append(claim)
    return claims


def _claim(value: Any) -> Claim | None:
    if isinstance(value, str):
        value = {"text": value}
    if not isinstance(value, dict):
        return None
    text = next((value[n] for n in _TEXT_NAMES if isinstance(value.get(n), str)), "")
    text = " ".join(text.replace("\x00", " ").split())
    turns = value.get("turns")
    return Claim(text, tuple(_integers(turns))) if text else None


def _integers(value: Any) -> Iterable[int]:
    values = value if isinstance(value, list) else [value]
    return (v for v in values if isinstance(v, int) and not isinstance(v, bool))
