"""Fixtures of the compose tests."""

from typing import Any

import pytest
from tests.sidecar.engine.demo import demo_tokenizer


@pytest.fixture
def hf_tokenizer() -> Any:
    """The Hugging Face tokenizer under the demo tokenizer."""
    return demo_tokenizer()._hf
