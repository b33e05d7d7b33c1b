"""`examples/litellm_chat.py` as a user runs it."""

from typing import Any

import pytest

pytest.importorskip("litellm", reason="LiteLLM is not installed: integrations/run_tests.sh")

SAY = ("--say", "My bicycle is a green Peugeot.", "--say", "What colour is my bicycle?")


def test_the_second_line_knows_the_first(sidecar: Any, run_example: Any) -> None:
    first, second = run_example("litellm_chat.py", *SAY, url=sidecar.url).split("you:   ")[1:]
    assert "- My bicycle" not in first
    assert "- My bicycle is a green Peugeot." in second
    assert "Answer in one short sentence." in second


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_with_a_real_engine(real: Any, run_example: Any) -> None:
    second = run_example("litellm_chat.py", *SAY, url=real.url).split("you:   ")[2]
    assert "green" in second.partition("model:")[2].lower()
