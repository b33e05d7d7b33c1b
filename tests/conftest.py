"""What holds for all tests: how long a draw takes is the machine's affair, not a failure; and who
runs beside whom when there are several workers."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

TESTS = Path(__file__).parent
ENGINES = {
    "vllm/test_gates.py": "vllm",
    "vllm/test_pace.py": "vllm",
    "vllm/test_pressure.py": "vllm",
    "vllm/test_turns.py": "vllm",
    "e2e/test_crashes.py": "crashes",
    "e2e/": "e2e",
    "examples/": "examples",
    "vllm/tiers/test_engine.py": "tiers",
    "vllm/models/": "models",
}
"""Groups of tests with an engine, by the beginning of their path. A group shares its engines on one
worker. The longest come first, so that none of them is the last to end."""

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


def pytest_configure() -> None:
    """A worker's engines compute on one core, its own: the threads of two engines that share their
    cores wait for each other, and everything takes three times as long."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker.startswith("gw"):
        cores = sorted(os.sched_getaffinity(0))
        own = cores[int(worker.removeprefix("gw")) % len(cores)]
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = str(own)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with an engine begin, in the order of their groups."""
    order = [*dict.fromkeys(ENGINES.values()), None]
    items.sort(key=lambda item: order.index(_engine(item.path.relative_to(TESTS).as_posix())))


class ByEngine(LoadScopeScheduling):
    """Deals out groups of `ENGINES`, and else files."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return _engine(path.removeprefix("tests/")) or path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """pytest 9.2 gives xdist's own `loadgroup` no group."""
    return ByEngine(config, log)


def _engine(path: str) -> str | None:
    """The group of a file of this folder."""
    return next((group for start, group in ENGINES.items() if path.startswith(start)), None)
