"""The dialects cost nothing until they are imported, and stand on the public SDK only."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import inferscale
import inferscale.compat

FOLDER = Path(inferscale.compat.__file__).parent
DIALECTS = ("mem0", "zep", "letta")
MODULES = tuple(f"inferscale.compat.{name}" for name in DIALECTS)


def test_the_sdk_does_not_load_them_and_they_load_nothing_foreign():
    imports = [f"import {name}" for name in ("inferscale", *MODULES)]
    code = "import sys, json; " + "; ".join(
        f"{each}; print(json.dumps([*sys.modules]))" for each in imports
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, *after = [set(json.loads(line)) for line in run.stdout.splitlines()]
    assert not {name for name in before if name.startswith("inferscale.compat")}
    for module, now, later in zip(MODULES, after, (MODULES[1:], MODULES[2:], ()), strict=True):
        foreign = {
            n.partition(".")[0] for n in now - before if not n.startswith("inferscale.compat")
        }
        assert foreign <= {*sys.stdlib_module_names, "pydantic"}, module
        assert not now & set(later), module


@pytest.mark.parametrize(
    "path", sorted(FOLDER.rglob("*.py")), ids=lambda p: f"{p.parent.name}-{p.stem}"
)
def test_only_public_names_of_the_sdk_are_used(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom | ast.Import):
            continue
        names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        for name in map(str, names):
            root, _, rest = name.partition(".")
            if rest.split(".")[0] == "compat":
                other = {*DIALECTS} - {path.parent.name}
                assert not other & set(rest.split(".")[1:2]), name
            if root == "inferscale":
                assert rest.startswith("compat") or rest in ("", "errors"), name
                if rest == "" and isinstance(node, ast.ImportFrom):
                    assert {alias.name for alias in node.names} <= set(inferscale.__all__)
            else:
                assert root in {*sys.stdlib_module_names, "httpx", "pydantic"}, name
