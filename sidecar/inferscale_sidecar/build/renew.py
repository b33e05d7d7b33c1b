"""Which items deserve to be encoded again: a user's first ones, once there is better company.

Owns the rule. Pure. The first items of a user are encoded behind made-up ones, because there is
nothing else yet. Once as many later items have come as a full context holds, they are encoded again
behind those. Invariant: an item is renewed at most once per loss of its neighbours, because the
renewed one has a full context of the owner's own items.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferscale_sidecar.build.policy import EncodePolicy
from inferscale_sidecar.core import BuildItem
from inferscale_sidecar.store.neighbour_port import EarlyItem


@dataclass(frozen=True)
class Renewal:
    """Encode `items` again, behind `behind`."""

    items: tuple[BuildItem, ...]
    behind: tuple[BuildItem, ...]


def early_limit(policy: EncodePolicy) -> int:
    """How many of an owner's first items `renewal` has to see; 0 if the policy renews nothing."""
    return 2 * policy.count("recent")


def renewal(early: Sequence[EarlyItem], policy: EncodePolicy) -> Renewal | None:
    """What to encode again of an owner's list; None if nothing.

    Args:
        early: the owner's first `early_limit(policy)` items, oldest first.
        policy: in use.
    """
    size = policy.count("recent")
    if not size or len(early) < 2 * size:
        return None
    thin = [
        one.item for one in early[:size] if one.neighbours is not None and one.neighbours < size
    ]
    behind = tuple(one.item for one in early[size:])
    return Renewal(tuple(thin), behind) if thin else None
