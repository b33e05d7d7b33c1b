"""What a database's errors become, without a database."""

import pytest

from inferscale_sidecar.errors import StoreUnavailable
from inferscale_sidecar.store.failures import MAX_ATTEMPTS, TransactionConflict, repeating


async def test_repeating_ends() -> None:
    rounds: list[int] = []

    @repeating
    class Unlucky:
        async def write(self) -> None:
            rounds.append(1)
            raise TransactionConflict("again")

    with pytest.raises(StoreUnavailable):
        await Unlucky().write()
    assert len(rounds) == MAX_ATTEMPTS
