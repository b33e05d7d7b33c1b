"""InferScale in the OpenAI Agents SDK: a model with a user's memory, and a session that remembers.

Thin shells over the public SDK. The package agents is imported when a name of this one is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_agents.model import InferScaleModel as InferScaleModel
    from inferscale_agents.session import RememberingSession as RememberingSession

_WHERE = {"InferScaleModel": "model", "RememberingSession": "session"}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_agents",
    _WHERE,
    extra="openai-agents",
    frameworks=("agents", "openai"),
)
