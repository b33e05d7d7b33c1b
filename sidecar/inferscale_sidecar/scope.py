"""Whose memory: the ids inside a tenant, as one value. The one place that says how they combine.

Another id is one more field here, in `SCOPE_IDS` and in the wire's `Scope`, and a migration.
"""

from dataclasses import dataclass
from itertools import product
from typing import Any

from inferscale.protocol.values import SCOPE_IDS


@dataclass(frozen=True)
class Scope:
    """Whose memory inside a tenant. Given ids are ANDed; None means "any", never "*"."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    app_id: str | None = None

    @classmethod
    def of(cls, named: Any) -> "Scope":
        """The ids that a row, a request or a line of an export has as attributes."""
        return cls(*[getattr(named, name) for name in SCOPE_IDS])

    @property
    def ids(self) -> dict[str, Any]:
        """All ids by name, in the order of `SCOPE_IDS`; each a string or None."""
        return dict(vars(self))

    @property
    def given(self) -> dict[str, str]:
        """Those ids that are not None."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def thread_ids(self) -> dict[str, Any]:
        """All ids but the run, which a thread is itself: whose it is."""
        return {name: value for name, value in vars(self).items() if name != "run_id"}

    @property
    def key(self) -> list[str | None]:
        """What digests of a scope are made of: three ids, and those behind them as far as given.

        Digests that were kept when there were only three are found again so.
        """
        ids: list[str | None] = list(vars(self).values())
        while len(ids) > 3 and ids[-1] is None:
            ids.pop()
        return ids

    def covers(self, other: "Scope") -> bool:
        """True if every id given here is the other's."""
        return all(
            mine is None or mine == getattr(other, name) for name, mine in vars(self).items()
        )

    @property
    def parts(self) -> "list[Scope]":
        """Every scope that is made of some of the given ids, this one included."""
        ids = vars(self).values()
        chosen = product(*((None, value) if value is not None else (None,) for value in ids))
        return [Scope(*some) for some in chosen if any(some)]

    @property
    def owner(self) -> str:
        """Name of the list whose neighbours an item is encoded behind, e.g. `user:alice`."""
        for name, value in self.given.items():
            return f"{name.removesuffix('_id')}:{value}"
        raise ValueError(f"a scope needs at least one of {', '.join(SCOPE_IDS)}")
