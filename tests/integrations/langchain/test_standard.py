"""LangChain's own suites for chat models, retrievers and tools, against the real application."""

from typing import Any

import pytest

pytest.importorskip(
    "langchain_tests", reason="LangChain is not installed: integrations/run_tests.sh"
)

from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import BaseTool
from langchain_tests.integration_tests import RetrieversIntegrationTests, ToolsIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests, ToolsUnitTests

from inferscale import Memory
from inferscale_langchain import (
    AddMemoryTool,
    ChatInferScale,
    DeleteMemoryTool,
    InferScaleRetriever,
    SearchMemoriesTool,
)

USER = "standard-user"
FACTS = ("I drink coffee black", "Coffee keeps me awake", "My coffee mill is from Oslo", "I run")


@pytest.fixture(autouse=True)
def stocked(request: pytest.FixtureRequest, memory: Memory) -> None:
    """Every suite finds the same memories, and the client to reach them."""
    for fact in FACTS:
        memory.add(fact, user_id=USER)
    request.instance.memory = memory


class TestChatModel(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatInferScale

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"base_url": "http://127.0.0.1:8420", "memory": {"user_id": USER}}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        env = {"INFERSCALE_BASE_URL": "http://sidecar.test:1", "INFERSCALE_API_KEY": "key-1"}
        found = {"openai_api_base": "http://sidecar.test:1/v1/", "openai_api_key": "key-1"}
        return env, {}, found


class TestRetriever(RetrieversIntegrationTests):
    memory: Memory

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return InferScaleRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory, "user_id": USER}

    @property
    def retriever_query_example(self) -> str:
        return "coffee"


class _Tool:
    """What the tools' suites have in common."""

    memory: Memory

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory, "scope": {"user_id": USER}}


class _Search(_Tool):
    @property
    def tool_constructor(self) -> type[BaseTool]:
        return SearchMemoriesTool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"query": "coffee", "limit": 2}


class _Add(_Tool):
    @property
    def tool_constructor(self) -> type[BaseTool]:
        return AddMemoryTool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"text": "I like tea as well"}


class _Delete(_Tool):
    @property
    def tool_constructor(self) -> type[BaseTool]:
        return DeleteMemoryTool

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"memory_id": "nobody's"}


class TestSearchUnit(_Search, ToolsUnitTests): ...


class TestSearch(_Search, ToolsIntegrationTests): ...


class TestAddUnit(_Add, ToolsUnitTests): ...


class TestAdd(_Add, ToolsIntegrationTests): ...


class TestDeleteUnit(_Delete, ToolsUnitTests): ...


class TestDelete(_Delete, ToolsIntegrationTests): ...
