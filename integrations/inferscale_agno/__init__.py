"""InferScale in Agno: the sidecar's model, with the memory of the user whom a run is for.

A thin shell over the public SDK. Agno is imported when a name of this package is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_agno.model import InferScaleModel as InferScaleModel

_WHERE = {"InferScaleModel": "model"}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_agno",
    _WHERE,
    extra="agno",
    frameworks=("agno", "openai"),
)
