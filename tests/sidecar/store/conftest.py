"""Every test of the store runs on every database that it supports."""

from typing import Any

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_backend")
