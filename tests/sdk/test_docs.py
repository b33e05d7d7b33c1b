"""docs/sdk.md says what the SDK does."""

import ast
import re
from pathlib import Path

import pytest

import inferscale

TEXT = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_every_method_is_listed():
    methods = [name for name in dir(inferscale.Memory) if not name.startswith("_")]
    named = {name for name in methods if f"`{name}(" in TEXT or f"`{name}." in TEXT}
    assert set(methods) - named <= {"close"}


@pytest.mark.parametrize(
    ("kind", "title"), [(inferscale.Blocks, "Pinned blocks"), (inferscale.Threads, "Threads")]
)
def test_every_method_of_a_part_is_listed(kind, title):
    section = TEXT[TEXT.index(f"## {title}") :].removeprefix("## ").partition("\n## ")[0]
    methods = [name for name in dir(kind) if not name.startswith("_")]
    assert [name for name in methods if f"`{name}(" not in section] == []


def test_every_setting_is_listed():
    for name in ("base_url", "api_key", "timeout_s", "max_retries", "http_client"):
        assert f"| `{name}` |" in TEXT


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_snippets_use_what_exists(snippet):
    for node in ast.walk(ast.parse(snippet)):
        if isinstance(node, ast.ImportFrom):
            assert all(hasattr(inferscale, alias.name) for alias in node.names)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            kind = {
                "memory": inferscale.Memory,
                "stream": inferscale.ChatStream,
                "answer": inferscale.ChatCompletion,
                "chunk": inferscale.ChatCompletionChunk,
                "client": inferscale.OpenAI,
                "human": inferscale.Block,
                "m": inferscale.ThreadMessage,
                "context": inferscale.ThreadContext,
                "report": inferscale.ImportResult,
            }[node.value.id]
            assert hasattr(kind, node.attr) or node.attr in kind.model_fields, node.attr
