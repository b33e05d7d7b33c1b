"""The made-up facts of the quality check, and the questions about them. Pure.

Invariant: the same ones every time, so that two checks of one model can be compared.
"""

import random
from dataclasses import dataclass

CASES = 16
ITEMS = 16
_PEOPLE = ("Wren Quill", "Odile Farrow", "Bruno Tamm", "Yusuf Keld", "Petra Lorne", "Zadie Horne")
_KINDS = (
    ("{who} keeps the {x} in the attic.", "What does {who} keep in the attic?"),
    ("{who} works as a {x}.", "What does {who} work as?"),
    ("{who} grew up in {x}.", "Where did {who} grow up?"),
    ("{who} adopted a {x} last spring.", "What animal did {who} adopt last spring?"),
)
_VALUES = (
    ("violin", "ladder", "telescope", "saddle", "camera", "kite"),
    ("baker", "lawyer", "nurse", "carpenter", "pilot", "teacher"),
    ("Lisbon", "Cairo", "Oslo", "Lima", "Kyoto", "Dublin"),
    ("parrot", "goat", "hamster", "donkey", "turtle", "rabbit"),
)


@dataclass(frozen=True)
class Case:
    """A question, its answer, the part of the answer that matters, and the order of the facts."""

    question: str
    answer: str
    needle: str
    order: tuple[int, ...]


def made_up() -> tuple[list[str], list[Case]]:
    """Facts as they are built, and questions about some of them among others in another order."""
    draw = random.Random(7)
    told = [
        (fact.format(who=who, x=value), question.format(who=who), value)
        for (fact, question), values in zip(_KINDS, _VALUES, strict=True)
        for who, value in zip(_PEOPLE, values, strict=True)
    ]
    draw.shuffle(told)
    facts = [fact for fact, _, _ in told]
    cases = []
    for n in draw.sample(range(len(told)), CASES):
        others = draw.sample([m for m in range(len(told)) if m != n], ITEMS - 1)
        fact, question, value = told[n]
        # What the question is about comes last, as a search would have it.
        cases.append(Case(question, answer=fact, needle=value, order=(*others, n)))
    return facts, cases
