"""A bank that is too small evicts what is not needed, keeps every promise, and never outgrows its
limit."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from inferscale_vllm.bank import Bank, BankFull, Promises
from inferscale_vllm.bank.evict import Budget, Resident, victims
from inferscale_vllm.bank.room import Room

from .bank_items import SMALL, TENANTS, Stored, key, pages, small


def present(bank: Bank, numbers: range) -> set[int]:
    headers = bank.headers([key(n) for n in numbers])
    return {n for n, header in zip(numbers, headers, strict=True) if header is not None}


def test_least_recently_used_goes_first(tmp_path: Path) -> None:
    bank = small(tmp_path)
    for number in range(12):
        bank.put({key(number): pages(number, 12)})
    assert present(bank, range(12)) == set(range(12))
    bank.promises.note_uses({bytes.fromhex(key(0)): 2**62})
    for number in range(12, 18):
        bank.put({key(number): pages(number, 12)})
    left = present(bank, range(18))
    assert 0 in left and {1, 2, 3}.isdisjoint(left) and set(range(12, 18)) <= left
    stats = bank.stats()
    assert stats.evicted_items == 18 - len(left) and stats.evicted_bytes >= 3 * 12 * 4096
    assert stats.size_bytes <= SMALL and stats.used_bytes <= bank.budget.capacity_bytes


def test_a_promise_keeps_its_item_until_it_is_taken_back(tmp_path: Path) -> None:
    bank = small(tmp_path)
    bank.put({key(0): pages(0, 12)})
    bank.promises.make(b"holder", [key(0)])
    for number in range(1, 40):
        bank.put({key(number): pages(number, 12)})
    assert present(bank, range(1)) == {0}
    bank.promises.take_back(b"holder")
    for number in range(40, 60):
        bank.put({key(number): pages(number, 12)})
    assert present(bank, range(1)) == set()


def test_a_promise_runs_out(tmp_path: Path) -> None:
    bank = small(tmp_path)
    bank.promises.make(b"a process that died", [key(0)], seconds=-1)
    bank.promises.make(b"alive", [key(1)])
    assert bank.promises.promised() == {bytes.fromhex(key(1))}


def test_deleted_items_outlive_a_promise(tmp_path: Path) -> None:
    bank = small(tmp_path)
    bank.put({key(0): pages(0, 2)})
    bank.promises.make(b"holder", [key(0)])
    bank.retire([key(0)])
    assert bank.purge(grace_s=0) == 0
    with bank.reading() as reader:
        assert reader.kv(key(0)) is not None
    bank.promises.take_back(b"holder")
    assert bank.purge(grace_s=0) == 1


def test_all_promised_means_full(tmp_path: Path) -> None:
    bank = small(tmp_path)
    for number in range(12):
        bank.put({key(number): pages(number, 12)})
    bank.promises.make(b"holder", [key(n) for n in range(12)])
    with pytest.raises(BankFull, match="raise bank_size_bytes"):
        bank.put({key(99): pages(99, 100)})
    assert present(bank, range(12)) == set(range(12))


def test_a_tenant_over_its_quota_evicts_its_own(tmp_path: Path) -> None:
    bank = small(tmp_path, tenant_share=0.5)
    for number in range(4):
        bank.put({key(number): pages(number, 12, tenant=0)})
    for number in range(4, 30):
        bank.put({key(number): pages(number, 12, tenant=1)})
    assert present(bank, range(4)) == {0, 1, 2, 3}
    assert 4 not in present(bank, range(30)) and 29 in present(bank, range(30))
    with pytest.raises(BankFull):
        bank.put({key(99): pages(99, 120, tenant=1)})


def test_free_space_in_pieces_is_put_together(tmp_path: Path) -> None:
    bank = small(tmp_path)
    for number in range(60):
        bank.put({key(number): pages(number, 2)})
    bank.retire([key(n) for n in range(0, 60, 2)])
    bank.purge(grace_s=0)
    bank.put({key(99): pages(99, 90)})
    assert 99 in present(bank, range(100)) and bank.stats().size_bytes <= SMALL


def test_nobody_is_evicted_for_an_item_that_fits_nowhere(tmp_path: Path) -> None:
    bank = small(tmp_path)
    bank.put({key(0): pages(0, 12)})
    with pytest.raises(BankFull):
        bank.put({key(1): pages(1, 300)})
    assert present(bank, range(1)) == {0}


def test_a_promise_made_while_evicting_is_kept(tmp_path: Path) -> None:
    """It comes after the choice and before the erasure, and may rest on a look before both."""

    class Late(Promises):
        calls = 0

        def promised(self) -> set[bytes]:
            self.calls += 1
            return super().promised() if self.calls > 1 else set()

    bank = small(tmp_path)
    for number in range(12):
        bank.put({key(number): pages(number, 12)})
    late = Late(tmp_path / "late")
    late.make(b"holder", [key(0)])
    header, _ = pages(99, 50)
    Room(bank.file, late, bank.budget).make({bytes.fromhex(key(99)): header})
    assert present(bank, range(3)) == set(), "taken out of service: not promised again"
    with bank.reading() as reader:
        assert reader.kv(key(0)) is not None and reader.kv(key(1)) is None


residents = st.builds(
    Resident,
    raw=st.integers(0, 2**32).map(lambda n: n.to_bytes(32, "big")),
    tenant=st.sampled_from(TENANTS),
    size_bytes=st.integers(1, 100),
    used_ns=st.integers(0, 50),
)


@given(
    held=st.lists(residents, max_size=12, unique_by=lambda r: r.raw),
    needed=st.dictionaries(st.sampled_from(TENANTS), st.integers(1, 150), min_size=1),
    share=st.sampled_from([0.3, 0.7, 1.0]),
    promised=st.sets(st.integers(0, 11)),
)
def test_victims(
    held: list[Resident], needed: dict[bytes, int], share: float, promised: set[int]
) -> None:
    budget = Budget(300, share)
    safe = {held[n].raw for n in promised if n < len(held)}
    chosen = victims(held, needed, budget, promised=safe)
    least = {t: sum(r.size_bytes for r in held if r.tenant == t and r.raw in safe) for t in TENANTS}
    if chosen is None:
        over = any(least[t] + n > budget.tenant_bytes for t, n in needed.items())
        assert over or sum(least.values()) + sum(needed.values()) > 300
        return
    gone = {r.raw for r in chosen}
    assert not gone & safe and len(gone) == len(chosen)
    left = [r for r in held if r.raw not in gone]
    assert sum(r.size_bytes for r in left) + sum(needed.values()) <= 300
    for tenant, more in needed.items():
        own = sum(r.size_bytes for r in left if r.tenant == tenant)
        assert own + more <= budget.tenant_bytes


class SmallBank(RuleBasedStateMachine):
    """Everything that happens to a bank, in any order, in a bank for some ten items.

    The model knows what was put last under a number, and what is promised; what the bank may drop
    by itself is exactly what is not promised.
    """

    numbers = st.integers(0, 15)
    holders = st.sampled_from([b"first", b"second"])

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.live: dict[int, Stored] = {}
        self.promises: dict[bytes, dict[int, Stored]] = {}

    @initialize(share=st.sampled_from([0.6, 1.0]))
    def begin(self, share: float) -> None:
        self.share = share
        self.bank = small(Path(self._folder.name), tenant_share=share)

    @property
    def promised(self) -> set[int]:
        return {n for kept in self.promises.values() for n in kept}

    @rule(
        numbers=st.lists(numbers, min_size=1, max_size=3, unique=True),
        size=st.integers(1, 60),
        tenant=st.integers(0, 1),
        seed=st.integers(0, 99),
    )
    def put(self, numbers: list[int], size: int, tenant: int, seed: int) -> None:
        batch = {n: pages(seed + n, size, tenant) for n in numbers}
        try:
            self.bank.put({key(n): stored for n, stored in batch.items()})
        except BankFull:
            stored = {}
        else:
            stored = batch
            assert present(self.bank, range(16)) >= set(batch)
            for kept in self.promises.values():  # the same tokens again: the promise is for these
                kept.update({n: batch[n] for n in kept.keys() & batch.keys()})
        self.live.update(stored)
        gone = self.live.keys() - present(self.bank, range(16))
        assert not gone & self.promised, "an item left although it was promised"
        for number in gone:
            del self.live[number]

    @rule(holder=holders, numbers=st.lists(numbers, max_size=4))
    def promise(self, holder: bytes, numbers: list[int]) -> None:
        self.bank.promises.make(holder, [key(n) for n in numbers])
        here = present(self.bank, range(16))
        self.promises[holder] = {n: self.live[n] for n in numbers if n in here}

    @rule(holder=holders)
    def inject(self, holder: bytes) -> None:
        with self.bank.reading() as reader:
            for number, (_, kv) in self.promises.get(holder, {}).items():
                assert bytes(reader.kv(key(number)) or b"") == bytes(kv)

    @rule(holder=holders)
    def take_back(self, holder: bytes) -> None:
        self.bank.promises.take_back(holder)
        self.promises.pop(holder, None)

    @rule(number=numbers)
    def use(self, number: int) -> None:
        self.bank.promises.note_uses({bytes.fromhex(key(number)): 2**61 + number})

    @rule(number=numbers)
    def retire(self, number: int) -> None:
        assert self.bank.retire([key(number)]) == (self.live.pop(number, None) is not None)

    @rule()
    def purge(self) -> None:
        self.bank.purge(grace_s=0)

    @rule()
    def restart(self) -> None:
        """Promises outlive who made them, until they run out."""
        self.bank.close()
        self.bank = small(Path(self._folder.name), tenant_share=self.share)

    @rule()
    def compact(self) -> None:
        self.bank.compact()

    @invariant()
    def all_is_well(self) -> None:
        if not hasattr(self, "bank"):
            return
        assert self.bank.check_integrity() == []
        stats = self.bank.stats()
        assert stats.size_bytes <= SMALL and stats.used_bytes <= self.bank.budget.capacity_bytes
        assert present(self.bank, range(16)) == self.live.keys()
        headers = self.bank.headers([key(n) for n in self.live])
        for (header, _), found in zip(self.live.values(), headers, strict=True):
            assert found is not None and found.checksum == header.checksum

    def teardown(self) -> None:
        for holder in self.promises:
            self.bank.promises.take_back(holder)
        self.bank.retire(self.bank.keys())
        self.bank.purge(grace_s=0)
        stats = self.bank.stats()
        assert (stats.items, stats.used_bytes, stats.tenants) == (0, 0, 0), "something leaked"
        self.bank.close()
        self._folder.cleanup()


TestSmallBank = SmallBank.TestCase
TestSmallBank.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)

STORM = """
import random, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from bank_items import key, pages, small
bank = small(Path({folder!r}))
rng = random.Random({seed})
print("go", flush=True)
while True:
    number = rng.randrange(40)
    bank.put({{key(number): pages(number, rng.randrange(1, 40))}})
    if rng.random() < 0.2:
        bank.retire([key(rng.randrange(40))])
"""


def test_kill_9_while_evicting_tears_nothing(tmp_path: Path) -> None:
    rng = random.Random(7)
    for seed in range(4):
        source = STORM.format(tests=str(Path(__file__).parent), folder=str(tmp_path), seed=seed)
        with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as storm:
            assert storm.stdout is not None and storm.stdout.readline() == b"go\n"
            with pytest.raises(subprocess.TimeoutExpired):
                storm.wait(rng.uniform(0.05, 0.4))
            os.kill(storm.pid, signal.SIGKILL)
        bank = small(tmp_path)
        assert bank.check_integrity() == []
        assert bank.stats().size_bytes <= SMALL
        bank.put({key(99): pages(99, 20)})
        assert bank.headers([key(99)])[0] is not None
        bank.close()
