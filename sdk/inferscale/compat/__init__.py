"""Other memory libraries' spellings over InferScale: swap the import, keep the code.

`compat.mem0`, `compat.zep` and `compat.letta` are separate; importing one loads none of the others.
Owns no store and no model of its own: every call becomes calls of `inferscale.Memory`. What cannot
be honoured raises `DialectError`; nothing is dropped silently.
"""

from inferscale.compat._refuse import DialectError

__all__ = ["DialectError"]
