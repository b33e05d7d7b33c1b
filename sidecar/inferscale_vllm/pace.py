"""How much one engine step injects: what decodes beside it waits for the copy.

Owns the count of a step's bytes. vLLM takes no injected token from a step's token budget, so
without a limit many hits that come together are one long step. Invariant: the first request that
asks in a step is never sent away, so every request is served, however large it is.
"""

from collections.abc import Iterable, Mapping

from inferscale_vllm.bank import ItemHeader
from inferscale_vllm.plan import Segment


class StepBudget:
    """Bytes of one step. A request that is too much for what is left asks again in the next one.

    Args:
        limit_bytes: most that one step injects; 0: no limit.
    """

    def __init__(self, limit_bytes: int = 0) -> None:
        self._limit_bytes, self._spent = limit_bytes, 0

    def allows(self, num_bytes: int) -> bool:
        """Whether so many more fit into this step."""
        is_first = not self._limit_bytes or not self._spent
        return is_first or self._spent + num_bytes <= self._limit_bytes

    def spend(self, num_bytes: int) -> None:
        """They are injected in this step. Asking alone costs nothing: vLLM may find no room."""
        self._spent += num_bytes

    def renew(self) -> None:
        """The step is complete."""
        self._spent = 0


def stored_bytes(pieces: Iterable[Segment], headers: Mapping[str, ItemHeader]) -> int:
    """Bytes of the bank that pieces of items are read from; `headers` by key."""
    found = ((headers[piece.key], piece.num_tokens) for piece in pieces)
    return sum(header.size_bytes * tokens // header.num_tokens for header, tokens in found)
