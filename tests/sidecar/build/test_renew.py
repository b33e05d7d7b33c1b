"""A user's first items are encoded again once there is company for them, and only once."""

import pytest
from tests.sidecar.build.fake_store import FakeStore
from tests.sidecar.build.test_queue import running, settled
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale_sidecar.build.policy import EncodePolicy
from inferscale_sidecar.build.renew import early_limit, renewal
from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.core import BuildItem
from inferscale_sidecar.store.neighbour_port import EarlyItem

pytestmark = pytest.mark.timeout(60)
LIMITS = WindowLimits(context=3)


def early(*neighbours: int | None) -> list[EarlyItem]:
    return [
        EarlyItem(BuildItem(f"m{n}", 1, "acme", "user:a", f"t{n}"), count)
        for n, count in enumerate(neighbours)
    ]


@pytest.mark.parametrize(
    ("neighbours", "thin"),
    [
        ((0, 1, 2, 3, 3), None),  # too few later items
        ((0, 1, 2, 3, 3, 3), ["m0", "m1", "m2"]),
        ((3, 3, 3, 3, 3, 3), None),
        ((None, 1, 3, 3, None, 3), ["m1"]),  # without KV it is pending, not thin
    ],
)
def test_which_items_are_renewed(
    neighbours: tuple[int | None, ...], thin: list[str] | None
) -> None:
    found = renewal(early(*neighbours), EncodePolicy.parse("recent(3)"))
    assert (found and [item.memory_id for item in found.items]) == thin
    if found:
        assert [item.memory_id for item in found.behind] == ["m3", "m4", "m5"]


def test_policies_without_the_owners_own_items_renew_nothing() -> None:
    policy = EncodePolicy.parse("generic(16)")
    assert early_limit(policy) == 0
    assert renewal(early(0, 0, 0), policy) is None


async def test_first_items_move_behind_later_ones_when_those_are_there() -> None:
    engine, store = FakeEngine(), FakeStore()
    async with running(engine, store, limits=LIMITS) as queue:
        for n in range(6):
            store.add(f"Fact {n} of a life.")
            await settled(queue)
        built = {kv.memory_id: kv for kv in store.kv.values()}
        assert [len(built[f"m{n:04}"].context_ids) for n in range(6)] == [3, 4, 5, 3, 3, 3]
        assert built["m0000"].context_ids == ("m0003", "m0004", "m0005")
        assert store.keys() <= set(engine.bank), "what is recorded is in the bank"
        count = len(engine.builds)
        store.add("One more fact.")
        await settled(queue)
        assert len(engine.builds) == count + 1, "nothing is renewed twice"


async def test_a_renewal_that_the_engine_refuses_keeps_what_there_is() -> None:
    engine, store = FakeEngine(), FakeStore()
    async with running(engine, store, limits=LIMITS) as queue:
        for n in range(5):
            store.add(f"Fact {n} of a life.")
            await settled(queue)
        kept = dict(store.kv)
        store.add("The sixth fact of a life.")
        renews = lambda body: body["kv_transfer_params"]["inferscale"]["captures"][1:]  # noqa: E731
        engine.refuse = lambda body: bool(renews(body))
        await settled(queue)
        assert {name: store.kv[name] for name in kept} == kept
        assert not store.failures
