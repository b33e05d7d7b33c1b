"""InferScale in CrewAI: a model with a user's memory, and a callback that remembers tasks.

Thin shells over the public SDK. The package crewai is imported when a name of this one is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_crewai.callback import RememberTask as RememberTask
    from inferscale_crewai.llm import InferScaleLLM as InferScaleLLM

_WHERE = {"InferScaleLLM": "llm", "RememberTask": "callback"}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_crewai", _WHERE, extra="crewai", frameworks=("crewai", "openai")
)
