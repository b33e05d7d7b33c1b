"""Whether a fact says what its messages say: by words, in any language, without a model.

A fact is supported if enough of its words, and all of its numbers, stand in the messages. This
catches what models invent and what they copy from their instructions. It is no proof of meaning.
"""

import re
from collections.abc import Iterable

from inferscale_sidecar.index.words import terms

MIN_SUPPORT = 1 / 3
STEM_CHARS = 4
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
# Words that extraction itself brings along; they support nothing.
_EMPTY = frozenset(
    word
    for line in (
        "the a an is are was were be been has have had does do did to of in on at and or for with",
        "that this it its they their them he she his her him user assistant speaker person name",
    )
    for word in line.split()
)


def is_supported(fact: str, sources: Iterable[str], *, known: Iterable[str] = ()) -> bool:
    """True if the sources support the fact.

    Args:
        fact: one sentence.
        sources: texts of the messages that it is said to come from.
        known: names and dates that a fact may use though no message spells them.
    """
    source, extra = " ".join(sources), " ".join(known)
    if not _numbers(fact) <= _numbers(f"{source} {extra}"):
        return False
    about = {_stem(term) for term in terms(extra)}
    words = {_stem(t) for t in terms(fact) if t not in _EMPTY} - about
    if not words:
        return False
    there = {_stem(term) for term in terms(source)}
    return len(words & there) / len(words) >= MIN_SUPPORT


def _numbers(text: str) -> set[str]:
    found = _NUMBER.findall(text)
    return {part for number in found for part in re.split(r"[^\d]", number) if part}


def _stem(term: str) -> str:
    return term[:STEM_CHARS] if len(term) > STEM_CHARS and term.isascii() else term
