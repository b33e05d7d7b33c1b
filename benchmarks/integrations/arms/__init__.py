"""One module per framework, named like its extra: `arms(url, user)` gives the calls to compare.

A module is imported by the framework's own environment only (`worker.py`). `arms` is an async
context manager that gives three calls, awaiting or blocking, each of which asks one question:

- `by_hand`: the framework alone, with the field `memory` put into the request as a user would
  without us. The sidecar does the same work as in the next one.
- `attached`: our integration, which remembers nothing.
- `remembered`: our integration, which also remembers what was asked; None if it cannot.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Call = Callable[[str], Awaitable[object] | object]


@dataclass(frozen=True)
class Arms:
    """See the module."""

    by_hand: Call
    attached: Call
    remembered: Call | None = None
