"""Mem0's classes over InferScale: `from inferscale.compat.mem0 import Memory`.

Both spellings in the field work: 1.x (`search(q, user_id=…, limit=…)`) and 2.x
(`search(q, filters={…}, top_k=…)`). Results are plain dicts of Mem0's shape. See
`docs/from-mem0.md` for what differs.
"""

from inferscale.compat._refuse import DialectError
from inferscale.compat.mem0._hosted import AsyncMemoryClient, MemoryClient
from inferscale.compat.mem0._memory import AsyncMemory, Memory

__all__ = ["AsyncMemory", "AsyncMemoryClient", "DialectError", "Memory", "MemoryClient"]
