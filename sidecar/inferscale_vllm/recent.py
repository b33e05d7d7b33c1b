"""Texts that were deleted a short while ago. Owns the short while: a prompt that was put together
before a deletion may reach the engine after it, and must not bring the text back.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

KEEP_S = 600.0
"""Longer than any prompt is on its way from the sidecar to the engine."""
MAX_TEXTS = 65_536


class RecentTexts:
    """See the module. If there are too many to keep, every text counts as one of them for a while.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[str, float] = OrderedDict()
        self._all_until = 0.0

    def add(self, texts: Iterable[str]) -> None:
        until = self._clock() + KEEP_S
        for text in texts:
            self._until[text] = until
            self._until.move_to_end(text)
        while len(self._until) > MAX_TEXTS:
            self._all_until = self._until.popitem(last=False)[1]

    def add_everything(self) -> None:
        self._all_until = self._clock() + KEEP_S

    def __contains__(self, text: str) -> bool:
        now = self._clock()
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        return text in self._until or now < self._all_until
