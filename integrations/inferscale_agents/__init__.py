"""InferScale in the OpenAI Agents SDK: a model with a user's memory, and a session that remembers.

Thin shells over the public SDK. The package agents is imported when a name of this one is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from inferscale_agents.model import InferScaleModel as InferScaleModel
    from inferscale_agents.session import RememberingSession as RememberingSession

_WHERE = {"InferScaleModel": "model", "RememberingSession": "session"}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """The public names, each imported when it is first used."""
    if name not in _WHERE:
        raise AttributeError(f"module 'inferscale_agents' has no attribute {name!r}")
    try:
        module = import_module(f"inferscale_agents.{_WHERE[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("agents", "openai"):
            raise
        raise ImportError(
            f"inferscale_agents.{name} needs the package openai-agents: "
            "pip install 'inferscale-memory[openai-agents]'",
            name=error.name,
        ) from None
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
