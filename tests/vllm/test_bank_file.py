"""The bank's file says whose it is, gives space back only when nobody else looks, and loses nothing
on the way."""

import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from inferscale_vllm.bank import Bank, BankRefused

from .bank_items import SMALL, item, key, pages, small

OTHER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from bank_items import small
bank = small(Path({folder!r}))
print(len(bank.keys()), flush=True)
sys.stdin.readline()
"""


def test_another_model_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    bank = small(tmp_path, fingerprint="a" * 64)
    bank.put({key(1): item(1)})
    bank.close()
    with pytest.raises(BankRefused, match=r"another model.*bank_dir elsewhere"):
        small(tmp_path, fingerprint="b" * 64)
    bank = small(tmp_path, fingerprint="a" * 64)
    assert bank.headers([key(1)])[0] is not None
    bank.file.claim("layout", {"token_bytes": 64}, "written with another layout")
    with pytest.raises(BankRefused, match="another layout"):
        bank.file.claim("layout", {"token_bytes": 65}, "written with another layout")
    bank.close()


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    bank = small(tmp_path)
    bank.put({key(1): item(1)})
    bank.file.write_note("format", 99)
    bank.close()
    with pytest.raises(BankRefused, match=r"format 99.*upgrade"):
        small(tmp_path)


def test_a_file_without_a_format_is_emptied(tmp_path: Path) -> None:
    (tmp_path / "rank0").mkdir()
    with lmdb.open(str(tmp_path / "rank0"), max_dbs=4, map_size=SMALL) as env:
        headers, kv = env.open_db(b"headers"), env.open_db(b"kv")
        with env.begin(write=True) as txn:
            txn.put(b"k" * 32, b"ISK1 and so on", db=headers)
            txn.put(b"k" * 32, b"KV", db=kv)
    bank = small(tmp_path)
    assert bank.keys() == [] and bank.check_integrity() == []
    bank.put({key(1): item(1)})
    assert len(bank.keys()) == 1
    bank.close()


def test_compaction_gives_space_back(tmp_path: Path) -> None:
    bank = small(tmp_path)
    for number in range(20):
        bank.put({key(number): pages(number, 8)})
    bank.retire([key(n) for n in range(1, 20)])
    bank.purge(grace_s=0)
    before = bank.stats().size_bytes
    freed = bank.compact()
    assert freed > 100 * 4096 and bank.stats().size_bytes == before - freed
    assert (tmp_path / "rank0" / "data.mdb").stat().st_size == bank.stats().size_bytes
    assert bank.check_integrity() == [] and bank.keys() == [key(0)]
    bank.put({key(50): pages(50, 20)})
    assert bank.check_integrity() == []


def test_compaction_is_refused_while_another_process_looks(tmp_path: Path) -> None:
    bank = small(tmp_path)
    bank.put({key(1): item(1)})
    source = OTHER.format(tests=str(Path(__file__).parent), folder=str(tmp_path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", source], **pipes) as other:  # type: ignore[call-overload]
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(BankRefused, match="in use"):
            bank.compact()
        assert bank.headers([key(1)])[0] is not None
        other.communicate(b"\n")
    bank.compact()
    assert bank.headers([key(1)])[0] is not None


def test_a_lowered_limit_is_obeyed_at_the_next_start(tmp_path: Path) -> None:
    big = Bank(tmp_path / "rank0", limit_bytes=4 * SMALL)
    for number in range(40):
        big.put({key(number): pages(number, 20)})
    big.close()
    bank = small(tmp_path)
    assert bank.stats().size_bytes <= SMALL and bank.stats().limit_bytes == SMALL
    left = bank.keys()
    assert 5 <= len(left) < 10 and key(39) in left
    assert bank.check_integrity() == []
    bank.put({key(50): pages(50, 20)})


def test_a_compaction_that_was_killed_leaves_the_bank_as_it_was(tmp_path: Path) -> None:
    bank = small(tmp_path)
    bank.put({key(1): item(1)})
    bank.close()
    rest = tmp_path / "rank0" / "compacting"
    rest.mkdir()
    (rest / "data.mdb").write_bytes(b"half a copy")
    bank = small(tmp_path)
    assert not rest.exists() and bank.keys() == [key(1)]
    assert bank.compact() >= 0
