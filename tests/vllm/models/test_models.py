"""What docs/models.md says is supported, on real vLLM with tiny random models.

Some run with all tests; `make test-models` runs every one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from . import gemma
from .zoo import MODELS

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

ALWAYS = ("llama", "gemma3", "gpt-neox", "deepseek")
"""RoPE scaling; window groups and two bases; transformers' code and partial rotary; MLA."""
ROOT = Path(__file__).parents[3]


def run(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    command = [sys.executable, "-m", "tests.vllm.models.offline", str(folder), *names]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    results = [json.loads(line.removeprefix("RESULT ")) for line in lines]
    found = {result["name"]: result for result in results}
    assert set(found) == set(names), done.stderr[-4000:]
    return found


@pytest.fixture(scope="session")
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What was seen of every selected model; one process for all."""
    nodes = [item for item in request.session.items if item.path == Path(__file__)]
    chosen = {item.callspec.params["name"] for item in nodes if hasattr(item, "callspec")}
    chosen -= {name for name in chosen if _missing(name)}
    return run(tmp_path_factory.mktemp("models"), sorted(chosen))


def _missing(name: str) -> str | None:
    """Why a model cannot be had, if so."""
    return gemma.missing() if MODELS[name].is_real else None


def cases() -> list[Any]:
    return [
        pytest.param(name, marks=() if name in ALWAYS else pytest.mark.models) for name in MODELS
    ]


@pytest.mark.parametrize("name", cases())
def test_model(seen: dict[str, dict[str, Any]], name: str) -> None:
    if reason := _missing(name):
        pytest.skip(reason)
    tiny, found = MODELS[name], seen[name]
    assert "error" not in found, found["error"]
    if tiny.declined:
        said = found["unsupported"] or found["self_test"]["detail"]
        assert tiny.declined in said
        assert found["stored"] == 0
        assert found["moved"]["reason"] in ("unsupported_model", "disabled")
        return
    assert found["self_test"]["passed"], found["self_test"]
    assert found["stored"] == found["items"]
    _check_where_built(tiny, found)
    _check_moved(found)
    if tiny.is_real:
        _check_answers(found)


def _check_where_built(tiny: Any, found: dict[str, Any]) -> None:
    span = found["span"]
    assert (found["exact"]["injected"], found["exact"]["reason"]) == (span, None)
    assert found["exact"]["max_error"] in (0.0, None)
    if tiny.has_native_hits:
        assert found["native_tokens"] == span
        assert found["exact_equals_native"]
    else:  # the backend's own spread between a whole prefill and one behind a context
        assert found["exact_from_cold"] < 0.25


def _check_moved(found: dict[str, Any]) -> None:
    assert (found["moved"]["injected"], found["moved"]["reason"]) == (found["span"], None)
    assert found["moved"]["max_error"] in (0.0, None)
    assert found["exact_after_injected"], "injected KV was found by a request that did not ask"
    if "first_layer_error" in found:
        assert found["first_layer_error"] < 2**-6


def _check_answers(found: dict[str, Any]) -> None:
    kl = found["kl"]
    assert found["span"] > 2 * gemma.WINDOW, "a window has to let go of most of the list"
    assert kl["shifted"] < 0.1, "moved items answer as their text does"
    assert kl["shifted"] < kl["no_memory"] / 4
    assert kl["reversed"] < kl["no_memory"], "behind other neighbours they still tell something"
