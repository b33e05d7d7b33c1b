"""Encode policies: behind which other items a new item is encoded.

Owns names, what each asks for, and the order of the context. Pure. Invariants: a policy's name
says all that it does, and is part of every item key; made-up items fill up what a user does not
have yet, so that a context always has its full size; `is_isolated` policies never let one memory
shape another's KV.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from inferscale_sidecar.compose.generic import GENERIC_ITEMS
from inferscale_sidecar.core import BuildItem
from inferscale_sidecar.errors import ConfigError

Kind = Literal["recent", "similar", "generic"]
MAX_CONTEXT_ITEMS = 64
SIMILAR_WINDOW = 16
"""Most new items of a build with `similar` items: one context is chosen for all of them."""
STRICT_POLICY = "generic(16)"
"""The policy of strict isolation."""
_PART = re.compile(r"\s*(recent|similar|generic)\s*\(\s*(\d{1,3})\s*\)\s*")


@dataclass(frozen=True)
class Context:
    """What stands before the new items: made-up lines first, then the owner's own items."""

    generic: tuple[str, ...]
    behind: tuple[BuildItem, ...]


@dataclass(frozen=True)
class EncodePolicy:
    """See the module. Make it with `parse`.

    Attributes:
        parts: kinds and numbers of items, in the order in which they stand in the prompt.
    """

    parts: tuple[tuple[Kind, int], ...]

    @classmethod
    def parse(cls, text: str) -> "EncodePolicy":
        """From a name such as `similar(8)+recent(8)`.

        Raises:
            ConfigError: it is not such a name, names a kind twice, or asks for too many items.
        """
        parts: list[tuple[Kind, int]] = []
        for piece in text.split("+"):
            match = _PART.fullmatch(piece)
            if match is None:
                raise ConfigError(
                    f"encode policy {text!r} is not understood; write recent(m), similar(m), "
                    "generic(m), or several of them joined by +",
                    param="inject.policy",
                )
            parts.append((match[1], int(match[2])))  # type: ignore[arg-type]
        kinds = [kind for kind, _ in parts]
        total = sum(count for _, count in parts)
        if len(set(kinds)) < len(kinds) or total > MAX_CONTEXT_ITEMS:
            raise ConfigError(
                f"encode policy {text!r} names a kind twice, or {total} items; each kind may stand "
                f"once, with at most {MAX_CONTEXT_ITEMS} items together",
                param="inject.policy",
            )
        return cls(tuple(parts))

    @property
    def name(self) -> str:
        return "+".join(f"{kind}({count})" for kind, count in self.parts)

    @property
    def total(self) -> int:
        """Items of a full context."""
        return sum(count for _, count in self.parts)

    @property
    def is_isolated(self) -> bool:
        """Whether every item is encoded behind made-up ones only, and alone."""
        return all(kind == "generic" for kind, _ in self.parts)

    def count(self, kind: Kind) -> int:
        """How many items of a kind it asks for."""
        return dict(self.parts).get(kind, 0)

    def window(self, limit: int) -> int:
        """Most new items in one build, of `limit` that a build may hold."""
        if self.is_isolated:
            return 1
        return min(limit, SIMILAR_WINDOW) if self.count("similar") else limit

    def context(
        self, recent: Sequence[BuildItem] = (), similar: Sequence[BuildItem] = ()
    ) -> Context:
        """The context of a window.

        Args:
            recent: the owner's items just before the window's, oldest first.
            similar: items of the owner closest to the window's, best last; may overlap `recent`.
        """
        newest = _last(recent, self.count("recent"))
        taken = {item.memory_id for item in newest}
        closest = _last([i for i in similar if i.memory_id not in taken], self.count("similar"))
        own: dict[Kind, tuple[BuildItem, ...]] = {"recent": newest, "similar": closest}
        behind = tuple(item for kind, _ in self.parts for item in own.get(kind, ()))
        return Context(GENERIC_ITEMS[: max(0, self.total - len(behind))], behind)


def _last(items: Sequence[BuildItem], count: int) -> tuple[BuildItem, ...]:
    return tuple(items[-count:]) if count else ()
