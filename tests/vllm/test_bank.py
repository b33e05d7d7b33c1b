"""The bank keeps whole items or none; a retired one stays readable to those promised it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from inferscale_vllm.bank import Bank, BankFull, open_bank

from .bank_items import item, key

LIMIT = 64 * 2**20


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path / "bank", limit_bytes=LIMIT)


def test_items_come_back_as_they_were(bank: Bank) -> None:
    header, kv = item(5)
    bank.put({key(1): (header, kv)})
    [found, absent] = bank.headers([key(1), key(2)])
    assert absent is None and found is not None
    assert (found.num_tokens, found.position, found.checksum) == (3, 5, header.checksum)
    assert found.token_ids.tolist() == header.token_ids.tolist()
    with bank.reading() as reader:
        assert bytes(reader.kv(key(1)) or b"") == bytes(kv)
    assert bank.is_intact(key(1), found)
    assert bank.check_integrity() == []


def test_retired_is_hidden_at_once_and_readable_until_purged(bank: Bank) -> None:
    bank.put({key(1): item(1)})
    assert bank.retire([key(1), key(9)]) == 1
    assert bank.retire([key(1)]) == 0
    assert bank.headers([key(1)]) == [None]
    assert bank.purge() == 0
    with bank.reading() as reader:
        assert reader.kv(key(1)) is not None
    assert bank.purge(grace_s=0) == 1
    assert bank.keys() == []


def test_a_retired_item_can_be_built_again(bank: Bank) -> None:
    bank.put({key(1): item(1)})
    bank.retire([key(1)])
    bank.put({key(1): item(2)})
    assert bank.purge(grace_s=0) == 0
    [found] = bank.headers([key(1)])
    assert found is not None and found.position == 2


def test_flipped_bytes_are_found(bank: Bank) -> None:
    header, kv = item(1, tokens=200)
    bank.put({key(1): (header, kv)})
    path = bank.path / "data.mdb"
    content = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(content.index(bytes(kv[:32])))
        file.write(b"\x00" * 8)
    assert not bank.is_intact(key(1), header)
    assert any("checksum" in problem for problem in bank.check_integrity())


def test_full_bank_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    bank = Bank(tmp_path / "small", limit_bytes=2**20)
    bank.put({key(1): item(1)})
    with pytest.raises(BankFull, match="bank_size_bytes"):
        bank.put({key(2): item(2, tokens=2**15)})
    assert bank.headers([key(1)])[0] is not None
    assert bank.headers([key(2)]) == [None]


def test_one_handle_per_process(tmp_path: Path) -> None:
    first = open_bank(tmp_path / "shared", limit_bytes=LIMIT)
    assert open_bank(tmp_path / "shared", limit_bytes=LIMIT) is first


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from bank_items import item, key
from inferscale_vllm.bank import Bank
bank = Bank(Path({path!r}), limit_bytes=2**26)
for number in range(100_000):
    bank.put({{key(number): item(number, tokens=50)}})
    print(number, flush=True)
"""


def test_kill_9_while_writing_tears_nothing(tmp_path: Path) -> None:
    path = tmp_path / "bank"
    source = WRITER.format(tests=str(Path(__file__).parent), path=str(path))
    with subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(25)][-1]
        os.kill(writer.pid, signal.SIGKILL)
    bank = Bank(path, limit_bytes=LIMIT)
    assert bank.check_integrity() == []
    headers = bank.headers([key(number) for number in range(acknowledged + 1)])
    assert all(h is not None and bank.is_intact(key(n), h) for n, h in enumerate(headers))


class BankMachine(RuleBasedStateMachine):
    """Puts, retirements and purges in any order against a dictionary."""

    numbers = st.integers(0, 7)

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self._folder = tempfile.TemporaryDirectory()
        self.bank = Bank(Path(self._folder.name), limit_bytes=LIMIT)
        self.live: dict[int, int] = {}

    def teardown(self) -> None:
        self.bank.close()
        self._folder.cleanup()

    @rule(number=numbers, seed=st.integers(0, 99))
    def put(self, number: int, seed: int) -> None:
        self.bank.put({key(number): item(seed)})
        self.live[number] = seed

    @rule(number=numbers)
    def retire(self, number: int) -> None:
        assert self.bank.retire([key(number)]) == (self.live.pop(number, None) is not None)

    @rule(grace_s=st.sampled_from([0.0, 60.0]))
    def purge(self, grace_s: float) -> None:
        self.bank.purge(grace_s=grace_s)

    @invariant()
    def agrees(self) -> None:
        headers = self.bank.headers([key(n) for n in range(8)])
        found = {n: h.position for n, h in enumerate(headers) if h is not None}
        assert found == self.live
        assert self.bank.check_integrity() == []


TestBankMachine = BankMachine.TestCase
TestBankMachine.settings = settings(max_examples=20, stateful_step_count=20, deadline=None)
