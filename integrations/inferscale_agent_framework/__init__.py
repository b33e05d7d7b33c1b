"""InferScale in Microsoft Agent Framework: a context provider that gives memory, and the model.

A thin shell over the public SDK. The framework is imported when a name of this package is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_agent_framework.client import InferScaleChatClient as InferScaleChatClient
    from inferscale_agent_framework.provider import InferScaleProvider as InferScaleProvider

_WHERE = {"InferScaleChatClient": "client", "InferScaleProvider": "provider"}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_agent_framework",
    _WHERE,
    extra="agent-framework",
    frameworks=("agent_framework", "agent_framework_openai", "openai"),
)
