"""InferScale in Pydantic AI: a capability that gives an agent a user's memory, and the model.

A thin shell over the public SDK. Pydantic AI is imported when a name of this package is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_pydantic_ai.capability import InferScaleMemory as InferScaleMemory
    from inferscale_pydantic_ai.model import InferScaleModel as InferScaleModel

_WHERE = {"InferScaleMemory": "capability", "InferScaleModel": "model"}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_pydantic_ai",
    _WHERE,
    extra="pydantic-ai",
    frameworks=("pydantic_ai", "openai"),
)
