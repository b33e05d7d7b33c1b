"""`examples/crewai_chat.py` as a user runs it."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed: integrations/run_tests.sh")


def second_answer(output: str) -> str:
    return output.partition("Another crew")[2].partition("agent:")[2]


def test_the_second_crew_knows_the_first(sidecar: Any, run_example: Callable[..., str]) -> None:
    output = run_example("crewai_chat.py", url=sidecar.url)
    assert "- My bicycle is a green Peugeot from 1978." in second_answer(output)


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_with_a_real_engine(real: Any, run_example: Callable[..., str]) -> None:
    output = run_example("crewai_chat.py", url=real.url)
    assert "green" in second_answer(output).lower()
