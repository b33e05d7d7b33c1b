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


def loaded(statement: str) -> set[str]:
    code = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


def test_the_sdk_does_not_load_them():
    assert not {name for name in loaded("import inferscale") if "compat" in name.split(".")[1:2]}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_dialect_loads_the_sdk_and_itself(dialect):
    new = loaded(f"import inferscale.compat.{dialect}") - loaded("import inferscale")
    foreign = {name for name in new if not name.startswith("inferscale.compat")}
    assert {name.partition(".")[0] for name in foreign} <= set(sys.stdlib_module_names) | {
        "pydantic"
    }
    others = [f"inferscale.compat.{other}" for other in DIALECTS if other != dialect]
    assert not new & set(others)


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
            if root == "inferscale":
                assert rest.startswith("compat") or rest in ("", "errors"), name
                if rest == "" and isinstance(node, ast.ImportFrom):
                    assert {alias.name for alias in node.names} <= set(inferscale.__all__)
            else:
                assert root in {*sys.stdlib_module_names, "httpx", "pydantic"}, name
