"""What is asked: questions with the list of facts that they are asked about.

Owns reading LoCoMo (which is licensed for evaluation only and never part of this repository).
Invariant: the same arguments always give the same questions in the same order.
"""

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADVERSARIAL = 5
MAX_ANSWER_WORDS = 12


@dataclass(frozen=True)
class Pool:
    """The memories of one user, oldest first. Intervals are clustered by pool."""

    name: str
    facts: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One question.

    Attributes:
        subject: the set it belongs to: `locomo` or a name of `synthetic`.
        pool: what it is asked about.
        question: as the user asks it.
        answer: gold answer.
        wrong: other answers, for sets that are scored by choosing; empty otherwise.
    """

    subject: str
    pool: Pool
    question: str
    answer: str
    wrong: tuple[str, ...] = ()


def locomo(path: Path, count: int, *, conversations: int = 10, seed: int = 0) -> list[Case]:
    """`count` questions of LoCoMo, as evenly over its first conversations as they allow.

    Observations are the facts. Adversarial questions, long answers, and questions whose evidence
    no observation covers are left out.

    Raises:
        FileNotFoundError: there is no such file; it is not part of this repository.
    """
    read = json.loads(path.read_text())[:conversations]
    by_pool = [_questions(conversation, seed) for conversation in read]
    in_turns = itertools.chain.from_iterable(itertools.zip_longest(*by_pool))
    return [case for case in in_turns if case is not None][:count]


def _questions(conversation: dict[str, Any], seed: int) -> list[Case]:
    found = list(_observations(conversation))
    facts = tuple(dict.fromkeys(text for text, _ in found))
    covered = {source for _, sources in found for source in sources}
    pool = Pool(str(conversation["sample_id"]), facts)
    cases = [
        Case("locomo", pool, str(qa["question"]), str(qa["answer"]))
        for qa in conversation["qa"]
        if qa["category"] != ADVERSARIAL
        and "answer" in qa
        and len(str(qa["answer"]).split()) <= MAX_ANSWER_WORDS
        and covered.issuperset(qa["evidence"])
    ]
    random.Random(f"{seed} {pool.name}").shuffle(cases)
    return cases


def _observations(conversation: dict[str, Any]) -> Iterator[tuple[str, Sequence[str]]]:
    """Facts with the turns that they come from, in the order of the sessions."""
    observation = conversation["observation"]
    by_number = sorted(observation, key=lambda name: int(name.split("_")[1]))
    for session in by_number:
        for facts in observation[session].values():
            for text, source in facts:
                yield str(text), [source] if isinstance(source, str) else list(source)
