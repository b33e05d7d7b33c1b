"""From text to terms that can be compared, in any language.

Words where a script has spaces; characters and pairs of them in scripts that have none (Chinese,
Japanese, Thai, Lao, Khmer, Burmese); emoji one by one. Pure, deterministic, no word lists.
"""

import re
import unicodedata
from collections.abc import Iterator

# Scripts that are written without spaces between words.
_DENSE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
# Marks that belong to a word though `\\w` leaves them out: vowel signs of Indic and other scripts.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u06d6-\u06ed"
    "\u0900-\u0963\u0966-\u0dff\u0f18-\u0fbc\u1ab0-\u1aff"
)
_TERM = re.compile(
    rf"(?P<dense>[{_DENSE}]+)|(?P<emoji>[{_EMOJI}])|(?P<word>(?:(?![{_DENSE}{_EMOJI}])[\w{_MARKS}'’])+)"
)


def terms(text: str) -> list[str]:
    """The terms of a text in order, with repetitions: case-folded and in Unicode's normal form."""
    return list(_terms(unicodedata.normalize("NFKC", text).casefold()))


def _terms(text: str) -> Iterator[str]:
    for match in _TERM.finditer(text):
        run = match[0]
        if match.lastgroup == "dense":
            yield from run
            yield from (run[i : i + 2] for i in range(len(run) - 1))
        elif match.lastgroup == "emoji":
            yield run
        else:
            word = run.strip("_'’").removesuffix("'s").removesuffix("’s")
            if word:
                yield word
