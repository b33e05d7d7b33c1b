"""InferScale in Google ADK: a plugin that gives an app memory, a model, a memory service.

Thin shells over the public SDK. google.adk and litellm are imported when a name of this is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_adk.model import InferScaleLlm as InferScaleLlm
    from inferscale_adk.plugin import InferScalePlugin as InferScalePlugin
    from inferscale_adk.service import InferScaleMemoryService as InferScaleMemoryService

_WHERE = {
    "InferScaleLlm": "model",
    "InferScaleMemoryService": "service",
    "InferScalePlugin": "plugin",
}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_adk", _WHERE, extra="google-adk", frameworks=("google", "litellm", "openai")
)
