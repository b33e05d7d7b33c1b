"""What two sentences have to do with each other, judged by their words alone.

Cautious on purpose: to take two different facts for one loses a fact; to miss a restatement costs
a line. A difference in a number, sign, unit, date, negation, tense, name or word order is always
a difference. No model, no I/O.
"""

import re
import unicodedata

from inferscale_sidecar.index.words import terms

_ARTICLES = frozenset(("the", "a", "an"))
_NEGATORS = frozenset(
    word
    for words in (
        "not no never none cannot without",
        "nicht kein keine keinen nie nunca jamais pas non niet ikke inte ej не нет никогда",
        "不 没 沒 無 无 非 未 ない ไม",
    )
    for word in words.split()
)
_AUXILIARIES = frozenset(("do", "does", "did", "longer", "anymore", "any", "more", "can", "will"))
_NUMBER = re.compile(r"[-+\u2212<>≤≥~]?\s?\d+(?:[.,:/-]\d+)*\s?%?")


def is_restatement(new: str, old: str) -> bool:
    """True if the two say the same, but for case, punctuation, articles and plural forms."""
    return _signature(new) == _signature(old) and _content(new) == _content(old) != []


def is_negation(new: str, old: str) -> bool:
    """True if one of the two denies the other and they are the same otherwise."""
    if _signature(new) != _signature(old) or bool(_negators(new)) == bool(_negators(old)):
        return False
    return _affirmed(new) == _affirmed(old) != []


def _signature(text: str) -> tuple[list[str], list[str], bool]:
    """What must not differ though it is no word: numbers with their signs, symbols, a question."""
    text = unicodedata.normalize("NFKC", text)
    numbers = ["".join(found.split()) for found in _NUMBER.findall(text)]
    symbols = sorted(c for c in text if unicodedata.category(c) in ("Sc", "Sm", "So"))
    return numbers, symbols, "?" in text


def _content(text: str) -> list[str]:
    return [_stem(term) for term in terms(text) if term not in _ARTICLES]


def _stem(term: str) -> str:
    """Plural and third person only: what else an ending changes may be the meaning."""
    ends = term.isascii() and term.isalpha() and len(term) > 3 and term.endswith("s")
    return term[:-1] if ends and not term.endswith("ss") else term


def _negators(text: str) -> list[str]:
    return [t for t in terms(text) if t in _NEGATORS or t.endswith(("n't", "n’t"))]


def _affirmed(text: str) -> list[str]:
    kept = (t for t in terms(text) if t not in _NEGATORS and not t.endswith(("n't", "n’t")))
    # Of scripts without spaces single characters: a pair may span the negation.
    plain = [t for t in kept if len(terms(t)) == 1]
    return [_stem(t) for t in plain if t not in _ARTICLES and t not in _AUXILIARIES]
