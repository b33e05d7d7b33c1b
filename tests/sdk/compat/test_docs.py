"""The pages about the dialects say what the dialects do."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from .test_signatures import OFFERED, OURS, resolve

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {"mem0ai": "from-mem0.md", "zep-cloud": "from-zep.md", "letta-client": "from-letta.md"}
CLIENTS = {"mem0ai": "Memory", "zep-cloud": "Zep", "letta-client": "Letta"}


@pytest.mark.parametrize("package", sorted(PAGES))
def test_every_method_is_named(package):
    text = (DOCS / PAGES[package]).read_text(encoding="utf-8")
    assert [name for name in sorted(OFFERED[package]) if f"`{name}`" not in text] == []


@pytest.mark.parametrize("package", sorted(PAGES))
def test_snippets_use_what_exists(package):
    text = (DOCS / PAGES[package]).read_text(encoding="utf-8")
    snippets = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert snippets
    for node in ast.walk(ast.parse("\n".join(snippets))):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            assert all(hasattr(module, alias.name) for alias in node.names)
        if isinstance(node, ast.Call) and (path := _path(node.func)).count("."):
            root, _, name = path.partition(".")
            assert root in ("memory", "client")
            callable(resolve(OURS[package][CLIENTS[package]], name))
            assert name in OFFERED[package] or name.startswith("inferscale."), name


def _path(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_path(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
