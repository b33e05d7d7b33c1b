"""Which blocks of vLLM's prefix cache hold which texts: the blocks that a text lies in, and all
that were computed behind it, because they attended to it.

Owns the bookkeeping over block names (vLLM's hashes) and nothing else: what is in the cache is
asked, what is to leave it is told. vLLM says nothing when it reuses a block, so names that are
cached no more are dropped now and then. Invariants: a cached block that was added with a text in or
before it is found by that text; the size never exceeds its limit. Where both cannot be had, what is
known is dropped, and whatever is forgotten next is everything.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Node:
    """A cached block: the one before it, those behind it, and the texts that begin in it."""

    parent: bytes | None = None
    children: set[bytes] = field(default_factory=set)
    begins: set[str] = field(default_factory=set)


class HeldTexts:
    """See the module.

    Args:
        is_cached: whether a block of this name is in vLLM's prefix cache.
        limit: most names of blocks and beginnings of texts, together.
    """

    def __init__(self, is_cached: Callable[[bytes], bool], *, limit: int) -> None:
        self._is_cached = is_cached
        self._limit, self._tidy_at = limit, limit // 4
        self._nodes: dict[bytes, _Node] = {}
        self._begins_in: dict[str, set[bytes]] = {}
        self._num_begins = 0
        self.is_lossy = False
        """Whether something was dropped that is still cached: nobody knows any more what is."""

    def __len__(self) -> int:
        return len(self._nodes) + self._num_begins

    def add(self, chain: Sequence[bytes], begins: Iterable[tuple[int, str]]) -> None:
        """A request has left its blocks in the cache.

        Args:
            chain: names of its blocks, from the first on.
            begins: at which of them texts begin. What is known of blocks before them counts too.
        """
        texts: dict[int, list[str]] = {}
        for at, text in begins:
            texts.setdefault(at, []).append(text)
        known = (at for at, name in enumerate(chain) if name in self._nodes)
        first = min([next(known, len(chain)), *texts])
        waiting: list[str] = []
        parent: bytes | None = None
        for at in range(first, len(chain)):
            waiting += texts.get(at, ())
            if self._is_cached(chain[at]):
                self._put(chain[at], parent, waiting)
                parent, waiting = chain[at], []
        if len(self) > self._tidy_at:
            self._tidy()

    def take(self, texts: Iterable[str]) -> set[bytes]:
        """Names of all blocks that hold one of these texts. They are known no more."""
        found: set[bytes] = set()
        ahead = [name for text in texts for name in self._begins_in.get(text, ())]
        while ahead:
            name = ahead.pop()
            if name not in found:
                found.add(name)
                ahead += self._nodes[name].children
        for name in found:
            self._drop(name)
        return found

    def clear(self) -> None:
        """The cache is empty."""
        self._nodes.clear()
        self._begins_in.clear()
        self._num_begins = 0
        self._tidy_at = self._limit // 4
        self.is_lossy = False

    def lose(self) -> None:
        """Something was not added that should have been."""
        self.clear()
        self.is_lossy = True

    def _put(self, name: bytes, parent: bytes | None, begins: Iterable[str]) -> None:
        node = self._nodes.setdefault(name, _Node())
        if parent is not None and node.parent != parent:
            if node.parent is not None:
                self._nodes[node.parent].children.discard(name)
            node.parent = parent
            self._nodes[parent].children.add(name)
        for text in begins:
            self._begin(text, name, node)

    def _begin(self, text: str, name: bytes, node: _Node) -> None:
        if text not in node.begins:
            node.begins.add(text)
            self._begins_in.setdefault(text, set()).add(name)
            self._num_begins += 1

    def _drop(self, name: bytes) -> _Node:
        """Takes a block out; those behind it are on their own."""
        node = self._nodes.pop(name)
        if node.parent is not None:
            self._nodes[node.parent].children.discard(name)
        for child in node.children:
            self._nodes[child].parent = None
        for text in node.begins:
            self._begins_in[text].discard(name)
            if not self._begins_in[text]:
                del self._begins_in[text]
        self._num_begins -= len(node.begins)
        return node

    def _tidy(self) -> None:
        """Drops what is cached no more; what was computed behind it inherits its texts."""
        for name in [name for name in self._nodes if not self._is_cached(name)]:
            node = self._drop(name)
            for child in node.children:
                self._put(child, node.parent, node.begins)
        if len(self) > self._limit:
            self.lose()
        self._tidy_at = min(self._limit, max(self._limit // 4, 2 * len(self)))
