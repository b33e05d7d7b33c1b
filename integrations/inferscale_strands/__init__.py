"""InferScale in Strands Agents: a plugin that gives an agent memory, a model, a memory store.

Thin shells over the public SDK. The package strands is imported when a name of this one is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_strands.model import InferScaleModel as InferScaleModel
    from inferscale_strands.plugin import InferScalePlugin as InferScalePlugin
    from inferscale_strands.store import InferScaleMemoryStore as InferScaleMemoryStore

_WHERE = {
    "InferScaleMemoryStore": "store",
    "InferScaleModel": "model",
    "InferScalePlugin": "plugin",
}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_strands", _WHERE, extra="strands", frameworks=("strands", "openai")
)
