"""What importing an integration costs: nothing, until a name of it is used."""

import json
import os
import subprocess
import sys

import pytest

FRAMEWORKS = {
    "agno",
    "agent_framework",
    "agents",
    "crewai",
    "google",
    "haystack",
    "langchain",
    "langchain_classic",
    "langchain_core",
    "langchain_openai",
    "langgraph",
    "litellm",
    "llama_index",
    "mcp",
    "openai",
    "pydantic_ai",
    "strands",
}
PACKAGES = [
    "inferscale_agent_framework",
    "inferscale_adk",
    "inferscale_agents",
    "inferscale_agno",
    "inferscale_haystack",
    "inferscale_crewai",
    "inferscale_langchain",
    "inferscale_litellm",
    "inferscale_llama_index",
    "inferscale_mcp",
    "inferscale_pydantic_ai",
    "inferscale_strands",
]
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=ENV)
    return done.stdout


@pytest.mark.parametrize("package", PACKAGES)
def test_importing_a_package_imports_no_framework(package: str) -> None:
    code = f"import json, sys, {package} as p; dir(p); print(json.dumps(sorted(sys.modules)))"
    loaded = {name.partition(".")[0] for name in json.loads(run(code))}
    assert not loaded & FRAMEWORKS


@pytest.mark.parametrize(
    ("package", "name", "framework", "extra"),
    [
        (
            "inferscale_agent_framework",
            "InferScaleProvider",
            "agent_framework",
            "agent-framework",
        ),
        ("inferscale_agno", "InferScaleModel", "agno", "agno"),
        ("inferscale_adk", "InferScalePlugin", "google", "google-adk"),
        ("inferscale_agents", "InferScaleModel", "agents", "openai-agents"),
        ("inferscale_haystack", "InferScaleChatGenerator", "haystack", "haystack"),
        ("inferscale_crewai", "InferScaleLLM", "crewai", "crewai"),
        ("inferscale_langchain", "InferScaleMiddleware", "langchain", "langchain"),
        ("inferscale_langchain", "InferScaleRetriever", "langchain_core", "langchain"),
        ("inferscale_litellm", "InferScaleCallback", "litellm", "litellm"),
        ("inferscale_llama_index", "InferScaleLLM", "llama_index", "llama-index"),
        ("inferscale_mcp", "create_server", "mcp", "mcp"),
        ("inferscale_pydantic_ai", "InferScaleMemory", "pydantic_ai", "pydantic-ai"),
        ("inferscale_strands", "InferScaleModel", "openai", "strands"),
        ("inferscale_strands", "InferScalePlugin", "strands", "strands"),
    ],
)
def test_without_the_framework_the_error_names_the_extra(
    package: str, name: str, framework: str, extra: str
) -> None:
    code = (
        f"import sys; sys.modules['{framework}'] = None\n"
        f"try: from {package} import {name}\n"
        "except ImportError as error: print(error)"
    )
    assert f"pip install 'inferscale-memory[{extra}]'" in run(code)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(package: str) -> None:
    code = f"import {package}\ntry: {package}.nothing\nexcept AttributeError as e: print(e)"
    assert package in run(code)
