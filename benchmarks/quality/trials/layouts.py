"""Ways to encode a list of facts, as windows: what stands in front, and which facts are new.

Owns the names of layouts and what they mean. Pure. Invariant: the windows of a layout encode every
fact exactly once.
"""

import itertools
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from inferscale_sidecar.compose.generic import GENERIC_ITEMS


@dataclass(frozen=True)
class Window:
    """One build: `before` are texts in front, `new` numbers of facts, in the prompt's order."""

    before: tuple[str, ...]
    new: tuple[int, ...]


def chain(facts: Sequence[str], order: Sequence[int], *, behind: int, size: int) -> list[Window]:
    """Windows of `size` along an order, each behind the `behind` facts before it in that order.

    Made-up lines fill up in front of the first ones, as the product does.
    """
    found = []
    for first in range(0, len(order), size):
        own = [facts[n] for n in order[max(0, first - behind) : first]]
        before = (*GENERIC_ITEMS[: behind - len(own)], *own)
        found.append(Window(before, tuple(order[first : first + size])))
    return found


def shuffled(facts: Sequence[str], seed: int, *, behind: int, size: int) -> list[Window]:
    """`chain` along a random order."""
    order = list(range(len(facts)))
    random.Random(seed).shuffle(order)
    return chain(facts, order, behind=behind, size=size)


def stirred(window: Window, seed: int) -> Window:
    """The same window with its context and its facts in a random order."""
    rng = random.Random(f"{seed} {window.new}")
    before, new = list(window.before), list(window.new)
    rng.shuffle(before)
    rng.shuffle(new)
    return Window(tuple(before), tuple(new))


def by_meaning(vectors: np.ndarray, start: int = 0) -> list[int]:
    """An order in which each fact is followed by the closest one that is left.

    Args:
        vectors: unit vectors `[facts, dim]`.
        start: the first fact.
    """
    similar = vectors @ vectors.T
    left = np.ones(len(vectors), bool)
    order = [start]
    left[start] = False
    while left.any():
        order.append(int(np.where(left, similar[order[-1]], -np.inf).argmax()))
        left[order[-1]] = False
    return order


def sliding(facts: Sequence[str], chosen: Sequence[int], behind: int) -> list[Window]:
    """Each fact of a served list by itself, behind the `behind` facts that it is served behind."""
    return [
        Window(tuple(facts[m] for m in chosen[max(0, at - behind) : at]), (n,))
        for at, n in enumerate(chosen)
    ]


def behind_earlier(facts: Sequence[str], n: int, count: int) -> Window:
    """One fact by itself, behind the `count` facts before it in time."""
    own = facts[max(0, n - count) : n]
    return Window((*GENERIC_ITEMS[: count - len(own)], *own), (n,))


def behind_turns(
    facts: Sequence[str], sources: Mapping[str, list[str]], count: int
) -> list[Window]:
    """A window per session: behind the last `count` turns that its facts come from."""
    found: list[Window] = []
    at = 0
    for turns, own in itertools.groupby(facts, key=lambda fact: sources[fact]):
        size = len(list(own))
        found.append(Window(tuple(turns[-count:]), tuple(range(at, at + size))))
        at += size
    return found


_BEHIND, _SIZE = 8, 40
_NAME = re.compile(r"(\w+)(?:\((\d+)\))?(?:/(\d+))?(?::(\d+))?")


def windows(
    name: str, facts: Sequence[str], vectors: np.ndarray, sources: Mapping[str, list[str]]
) -> list[Window]:
    """The windows of a layout by its name, such as `recent(8)/40` or `shuffled:1`.

    Args:
        name: `kind(items in front)/size:seed`.
        facts: of one list.
        vectors: their unit vectors `[facts, dim]`.
        sources: by fact, the turns of its session (for `session`).
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"no layout is called {name!r}")
    behind, size = int(match[2] or _BEHIND), int(match[3] or _SIZE)
    straight = chain(facts, range(len(facts)), behind=behind, size=size)
    match match[1]:
        case "recent":
            return straight
        case "generic":
            return [w for n in range(len(facts)) for w in chain(facts, [n], behind=behind, size=1)]
        case "back":
            return [Window(w.before[::-1], w.new[::-1]) for w in straight]
        case "stir":
            return [stirred(w, int(match[4])) for w in straight]
        case "shuffled":
            return shuffled(facts, int(match[4]), behind=behind, size=size)
        case "meaning":
            return chain(facts, by_meaning(vectors), behind=behind, size=size)
        case "session":
            return behind_turns(facts, sources, behind)
    raise ValueError(f"no layout is called {name!r}")
