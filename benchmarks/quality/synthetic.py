"""Made-up sets with answers to choose from: what injection is likely to get wrong.

Owns generators, no data of anybody. All are deterministic. Invariant: a case's right answer follows
from its facts alone, and its wrong answers occur in the same list in another role, so that knowing
the kind of answer is not enough.
"""

import random
from collections.abc import Callable, Iterator, Sequence

from benchmarks.quality.cases import Case, Pool

NAMES = tuple(
    "Alma Bruno Celia Dario Edith Falk Greta Hugo Irma Jonas Karin Lars Mona Nils Olga Pavel "  # noqa: SIM905
    "Runa Sven Tilda Urs Vera Wim Xenia Yann Zora Anton Britta Cosmo Delia Emil".split()
)
CITIES = tuple(
    "Oslo Lisbon Prague Dublin Athens Vienna Madrid Warsaw Geneva Helsinki Naples Krakow "  # noqa: SIM905
    "Bergen Porto Lyon Seville".split()
)
PETS = ("dog", "cat", "rabbit", "parrot", "turtle", "hamster", "pony", "goat")
JOBS = tuple(
    "baker pilot nurse tailor plumber teacher painter dentist gardener lawyer".split()  # noqa: SIM905
)
HOBBIES = tuple(
    "rowing chess knitting climbing pottery fencing painting cycling skating sailing "  # noqa: SIM905
    "gardening archery".split()
)
MONTHS = tuple(
    "January February March April May June July August September October November "  # noqa: SIM905
    "December".split()
)
FOODS = ("pancakes", "sushi", "lentils", "dumplings", "risotto", "curry", "waffles", "paella")


def _filler(rng: random.Random) -> str:
    """A fact that answers nothing that is asked."""
    name = rng.choice(NAMES)
    return rng.choice(
        (
            f"{name} spent a weekend {rng.choice(HOBBIES)} with two old friends.",
            f"{name} would like to cook {rng.choice(FOODS)} more often.",
            f"{name} read a long article about {rng.choice(HOBBIES)} on the train.",
            f"{name} lent the blue umbrella to a neighbour in {rng.choice(MONTHS)}.",
            f"{name} thinks that {rng.choice(FOODS)} taste best on a rainy day.",
            f"{name} helped at the street party and stayed until it was over.",
        )
    )


def _needle(rng: random.Random) -> tuple[list[str], str, str, list[str]]:
    people = rng.sample(NAMES, 4)
    codes = [f"{rng.randrange(10_000, 100_000)}" for _ in people]
    facts = [f"The locker code of {p} is {c}." for p, c in zip(people, codes, strict=True)]
    return facts, f"What is the locker code of {people[0]}?", codes[0], codes[1:]


def _coreference(rng: random.Random) -> tuple[list[str], str, str, list[str]]:
    one, two = rng.sample(NAMES, 2)
    pets = rng.sample(PETS, 2)
    facts = []
    for name, pet in zip((one, two), pets, strict=True):
        facts += [f"{name} moved into a house with a garden.", f"There they got a {pet}."]
    return facts, f"Which pet did {one} get?", pets[0], pets[1:]


def _update(rng: random.Random) -> tuple[list[str], str, str, list[str]]:
    name, other = rng.sample(NAMES, 2)
    old, new, third = rng.sample(CITIES, 3)
    facts = [f"{name} lives in {old}.", f"{other} lives in {third}."]
    facts.append(f"{name} has moved away from {old} and now lives in {new}.")
    return facts, f"Where does {name} live now?", new, [old, third]


def _two_hop(rng: random.Random) -> tuple[list[str], str, str, list[str]]:
    one, two, friend, other = rng.sample(NAMES, 4)
    jobs = rng.sample(JOBS, 2)
    facts = [
        f"{one} is married to {friend}.",
        f"{two} is married to {other}.",
        f"{friend} works as a {jobs[0]}.",
        f"{other} works as a {jobs[1]}.",
    ]
    return facts, f"What is the job of the person that {one} is married to?", jobs[0], jobs[1:]


def _date(rng: random.Random) -> tuple[list[str], str, str, list[str]]:
    people, days = rng.sample(NAMES, 3), rng.sample(range(1, 29), 3)
    dates = [f"{d} {m}" for d, m in zip(days, rng.sample(MONTHS, 3), strict=True)]
    facts = [f"{p} has a birthday on {d}." for p, d in zip(people, dates, strict=True)]
    return facts, f"When is the birthday of {people[0]}?", dates[0], dates[1:]


def _near_duplicate(rng: random.Random) -> tuple[list[str], str, str, list[str]]:
    name = rng.choice(NAMES)
    rooms = ("kitchen", "bathroom", "bedroom", "hallway", "cellar", "office")
    colours = rng.sample(("green", "yellow", "white", "blue", "red", "grey"), 6)
    pairs = list(zip(rooms, colours, strict=True))
    facts = [f"{name} painted the {room} {colour} last year." for room, colour in pairs]
    room, colour = pairs[rng.randrange(6)]
    wrong = [c for c in colours if c != colour][:3]
    return facts, f"In which colour did {name} paint the {room}?", colour, wrong


KINDS: dict[str, Callable[[random.Random], tuple[list[str], str, str, list[str]]]] = {
    "needles": _needle,
    "coreference": _coreference,
    "updates": _update,
    "two_hop": _two_hop,
    "dates": _date,
    "near_duplicates": _near_duplicate,
}
_PER_POOL = 6
_FACTS = 60


def cases(count: int, kinds: Sequence[str] = tuple(KINDS), seed: int = 0) -> list[Case]:
    """`count` questions of each kind; six of a kind share a list of 60 facts."""
    found: list[Case] = []
    for first in range(0, count, _PER_POOL):
        for kind in kinds:
            # The number leads, so that lists sorted by name take the kinds in turns.
            name = f"{first // _PER_POOL}-{kind}"
            found += _pool(kind, name, min(_PER_POOL, count - first), seed)
    return found


def _pool(kind: str, name: str, count: int, seed: int) -> Iterator[Case]:
    """Questions of one list: their facts keep their order, at random places among fillers."""
    rng = random.Random(f"{seed} {name}")
    asked: dict[str, tuple[list[str], str, str, list[str]]] = {}
    while len(asked) < count:
        made = KINDS[kind](rng)
        names = {word for fact in made[0] for word in fact.split() if word in NAMES}
        if not any(names & {w for f in a[0] for w in f.split()} for a in asked.values()):
            asked[made[1]] = made
        elif rng.random() < 0.02:
            asked.clear()  # the names ran out: draw again
    facts = [_filler(rng) for _ in range(_FACTS - sum(len(a[0]) for a in asked.values()))]
    for own, *_ in asked.values():
        at = rng.randrange(len(facts) + 1)
        if kind == "coreference":  # a pronoun's line stands right behind what it refers to
            facts[at:at] = own
            continue
        places = sorted(rng.sample(range(len(facts) + len(own)), len(own)))
        for place, fact in zip(places, own, strict=True):
            facts.insert(place, fact)
    pool = Pool(name, tuple(dict.fromkeys(facts)))
    for _, question, answer, wrong in asked.values():
        yield Case(kind, pool, question, answer, tuple(wrong))
