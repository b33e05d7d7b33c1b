"""InferScale in Haystack: a chat generator whose requests carry memory, and a retriever.

Thin shells over the public SDK. Haystack is imported when a name of this package is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_haystack.generator import InferScaleChatGenerator as InferScaleChatGenerator
    from inferscale_haystack.retriever import InferScaleRetriever as InferScaleRetriever

_WHERE = {"InferScaleChatGenerator": "generator", "InferScaleRetriever": "retriever"}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_haystack",
    _WHERE,
    extra="haystack",
    frameworks=("haystack", "openai"),
)
