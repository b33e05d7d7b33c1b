"""InferScale in LiteLLM: a callback for the library, and a plugin for the proxy.

Thin shells over the public SDK. LiteLLM is imported when a name of this package is used.
"""

from typing import TYPE_CHECKING

from inferscale_shared.lazy import lazy_names

if TYPE_CHECKING:
    from inferscale_litellm.callback import InferScaleCallback as InferScaleCallback
    from inferscale_litellm.proxy import InferScaleProxyPlugin as InferScaleProxyPlugin
    from inferscale_litellm.proxy import proxy_plugin as proxy_plugin

_WHERE = {
    "InferScaleCallback": "callback",
    "InferScaleProxyPlugin": "proxy",
    "proxy_plugin": "proxy",
}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy_names(
    "inferscale_litellm",
    _WHERE,
    extra="litellm",
    frameworks=("litellm", "openai"),
)
