"""`InferScaleProxyPlugin`: memory for everyone behind a LiteLLM proxy, told apart by their keys.

Owns whose memory a request of the proxy gets. Invariant: that is decided from the key that LiteLLM
has checked, never from what the request says, on every path to the sidecar.
"""

from collections.abc import Callable, Mapping
from typing import Any

from inferscale import MemoryLike, memory_field
from inferscale_litellm.callback import InferScaleCallback, is_chat, last_words, uncached
from inferscale_shared.attach import attach

Whose = Callable[[Any, Mapping[str, Any]], MemoryLike | None]
"""The checked key (LiteLLM's `UserAPIKeyAuth`) and the request → its memory, or None for none."""

_HEADER = "x-inferscale-"


class _Decided(dict[str, Any]):
    """A `memory` field that this plugin made: a client's JSON never becomes one."""


def of_the_key(key: Any, request: Mapping[str, Any]) -> MemoryLike | None:
    """The memory of the user whom the key belongs to; None for a key of nobody."""
    return {"user_id": key.user_id} if key.user_id else None


class InferScaleProxyPlugin(InferScaleCallback):
    """Memory for the proxy; `callbacks: inferscale_litellm.proxy_plugin` in its config.yaml.

    What clients say about memory (a field, a header, a parameter of a fallback) never reaches the
    sidecar, but for `"memory": null`, which leaves it out.

    Args:
        whose: whose memory a request gets. Default: that of the key's `user_id`. To serve many
            users with one key, `lambda key, request: {"user_id": request["user"], "agent_id":
            key.team_id}`: whoever has a key can then name any user of that team.
        options: as for `InferScaleCallback`.
    """

    def __init__(self, *, whose: Whose = of_the_key, **options: Any) -> None:
        super().__init__(**options)
        self._whose = whose

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """The request with the memory of its key, and without what it says itself."""
        body = dict(data.get("extra_body") or {})
        missing = object()
        said = [body.pop("memory", missing), data.pop("memory", missing)]
        named = None if None in said else self._whose(user_api_key_dict, data)
        if named is not None:
            body = attach(body, {**self._defaults, **memory_field(named)}, last_words(data))
            if "memory" in body:
                body["memory"] = _Decided(body["memory"])
        return {**data, "extra_body": body} if body or data.get("extra_body") else data

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: Any
    ) -> dict[str, Any]:
        """The call to a deployment: with that memory if it is the sidecar, else without."""
        kept = {name: value for name, value in kwargs.items() if name != "memory"}
        body = dict(kept.get("extra_body") or {})
        memory = body.pop("memory", None)
        if is_chat(call_type) and self._is_sidecar(kept.get("api_base")):
            # None, not nothing: the sidecar is not to look at headers either.
            body["memory"] = memory if isinstance(memory, _Decided) else None
        for name in ("headers", "extra_headers"):
            if kept.get(name):
                kept[name] = _without_ours(kept[name])
        if body or "extra_body" in kept:
            kept["extra_body"] = body
        return uncached(kept) if body.get("memory") else kept


def _without_ours(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in headers.items() if not name.lower().startswith(_HEADER)}


proxy_plugin = InferScaleProxyPlugin()
"""For config.yaml; set up from the environment."""
