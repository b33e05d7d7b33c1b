"""Made-up memories of one person, and questions about them: as many as wanted, the same for a seed.

Owns the texts. Every fact is a sentence of some twenty tokens; no two facts and no two questions
are equal. Questions differ in whom and what they ask about, so that they recall different lists.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

NAME = "Tilda"
PEOPLE = (
    *("Anselm", "Bertille", "Cosmo", "Dagny", "Edwin", "Farida", "Goran", "Hedda", "Ismael"),
    *("Jorunn", "Kasimir", "Leocadia", "Milo", "Nanami", "Oskar", "Philippa", "Quentin", "Rhea"),
    *("Silvano", "Thandiwe", "Ulrich", "Vesna", "Wilma", "Yusuf"),
)
PLACES = (
    *("the harbour", "the old mill", "the library", "the skating rink", "the tram depot"),
    *("the botanical garden", "the fish market", "the community hall", "the climbing gym"),
    *("the observatory", "the bakery on the corner", "the ferry landing", "the allotment"),
    *("the music school", "the swimming pool", "the flea market", "the castle park"),
    *("the repair café", "the cinema", "the vineyard", "the clinic", "the railway museum"),
)
TOPICS = (
    *("sourdough bread", "second-hand bicycles", "a leaking roof", "chess openings", "knee pain"),
    *("the school board", "solar panels", "jazz records", "a lost passport", "wild mushrooms"),
    *("a kitchen renovation", "tax returns", "bird watching", "a broken boiler", "beekeeping"),
    *("learning Finnish", "marathon training", "a noisy neighbour", "watercolour paints"),
    *("a camping trip", "rescue dogs", "goat cheese", "board games", "a stolen umbrella"),
)
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
FACTS = (
    "{name} met {person} at {place} in {month} and they talked about {topic}.",
    "In {month} {name} asked {person} for advice about {topic} and wrote it down.",
    "{name} promised {person} to bring something about {topic} to {place} next time.",
    "{person} told {name} at {place} that {topic} had kept the family busy since {month}.",
    "{name} cancelled the {month} visit to {place} because of {topic} and a cold.",
    "Since {month} {name} and {person} have shared a subscription on {topic}.",
    "{name} would rather hear about {topic} from {person} than read about it at {place}.",
    "{person} owes {name} a lunch at {place} after losing a bet on {topic}.",
)
QUESTIONS = (
    "What does {name} remember of {person} and {topic}?",
    "What happened with {person} and {topic} at {place}?",
    "Has {name} talked to {person} about {topic} lately?",
)


def facts(count: int, seed: int) -> list[str]:
    """`count` different facts."""
    return _different(count, lambda rng: _filled(rng.choice(FACTS), rng), seed)


def questions(seed: int) -> Iterator[str]:
    """Different questions, without end as far as a benchmark is concerned (some 13,000)."""
    rng, seen = random.Random(seed), set[str]()
    while True:
        question = _filled(rng.choice(QUESTIONS), rng)
        if question not in seen:
            seen.add(question)
            yield question


def _different(count: int, draw: Callable[[random.Random], str], seed: int) -> list[str]:
    rng, found = random.Random(seed), dict[str, None]()
    while len(found) < count:
        found[draw(rng)] = None
    return list(found)


def _filled(template: str, rng: random.Random) -> str:
    return template.format(
        name=NAME,
        person=rng.choice(PEOPLE),
        place=rng.choice(PLACES),
        topic=rng.choice(TOPICS),
        month=rng.choice(MONTHS),
    )
