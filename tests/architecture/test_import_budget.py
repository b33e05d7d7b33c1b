"""What `import inferscale` may cost: httpx, pydantic, the standard library, and nothing else."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from inferscale.protocol import engine

_LOADED = "import sys, json; {code}; print(json.dumps(sorted(sys.modules)))"
HEAVY = {"openai", "torch", "numpy", "transformers", "vllm", "fastapi", "sqlalchemy", "httpx2"}


def _roots(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running `code`."""
    command = [sys.executable, "-c", _LOADED.format(code=code)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in json.loads(run.stdout)}


def test_the_sdk_loads_httpx_pydantic_and_nothing_else():
    # A model with a constraint, because pydantic imports some of its own parts only for that.
    allowed = _roots(
        "import httpx, pydantic; pydantic.create_model('M', x=(int, pydantic.Field(ge=0)))"
    )
    found = _roots("import inferscale") - allowed - set(sys.stdlib_module_names) - {"inferscale"}
    extra = {name for name in found if not name.startswith("_sysconfigdata")}
    assert not extra, f"import inferscale also loads {sorted(extra)}"


def test_nothing_heavy_comes_with_it():
    assert not _roots("import inferscale; inferscale.Memory()") & HEAVY


def test_what_the_engine_loads_of_the_protocol_needs_the_standard_library_only():
    tree = ast.parse(Path(engine.__file__).read_text())
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("name", ["OpenAI", "AsyncOpenAI"])
def test_without_openai_the_error_names_the_extra(name):
    code = (
        "import sys, inferscale; sys.modules['openai'] = None\n"
        f"try: inferscale.{name}\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "pip install 'inferscale-memory[openai]'" in run.stdout, run.stderr


def test_star_import_works_without_openai():
    code = "import sys; sys.modules['openai'] = None\nfrom inferscale import *\nprint(Memory)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
