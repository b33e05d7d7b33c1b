"""Agents of Strands with memory, as the tests make them."""

from collections.abc import Callable
from typing import Any

import pytest

from inferscale import Memory

REASON = "Strands is not installed: integrations/run_tests.sh"


@pytest.fixture
def agent_of(sidecar: Any, memory: Memory) -> Callable[..., Any]:
    """`agent_of(memory, …)` is an agent with that memory."""

    strands = pytest.importorskip("strands", reason=REASON)
    from inferscale_strands import InferScaleModel, InferScalePlugin

    def make(named: Any, *, model: Any = None, plugin: Any = None, **more: Any) -> Any:
        model = model or InferScaleModel(client_args={"base_url": sidecar.url})
        plugin = InferScalePlugin(named, **{"client": memory, **(plugin or {})})
        options = {"system_prompt": "Be brief.", "tools": [], "callback_handler": None}
        return strands.Agent(model=model, plugins=[plugin], **{**options, **more})

    return make
