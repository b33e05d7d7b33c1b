"""Looks after banks from outside the engine: `python -m inferscale_vllm.bank.tool ACTION`.

Owns the four actions, one JSON document on stdout. `inferscale-sidecar bank` runs it in the
interpreter that has vLLM. Safe beside a running engine: what needs the file alone says so.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from inferscale_vllm.bank.file import BankFile, BankRefused
from inferscale_vllm.bank.store import Bank

Facts = dict[str, Any]


def banks_in(root: Path, namespace: str = "") -> list[Path]:
    """Folders of all banks whose fingerprint begins with `namespace`."""
    return sorted(p.parent for p in root.glob(f"{namespace}*/rank*/data.mdb"))


def open_as_it_is(path: Path) -> Bank:
    """Opens a bank with the limit that its engine gave it.

    Raises:
        BankRefused: its format is not this version's.
    """
    file = BankFile(path, limit_bytes=0)
    limit = file.note("limit_bytes") or file.size_bytes
    file.close()
    return Bank(path, limit_bytes=limit)


def stats(bank: Bank, everything: bool) -> Facts:
    """Counts and sizes, without reading the items."""
    facts = asdict(bank.stats())
    free = facts["size_bytes"] - facts["used_bytes"]
    return {**facts, "unused_bytes": max(0, free), "in_use": not bank.file.was_alone}


def verify(bank: Bank, everything: bool) -> Facts:
    """Reads all items and compares checksums and counts."""
    problems = bank.check_integrity()
    return {"items": bank.stats().items, "ok": not problems, "problems": problems}


def compact(bank: Bank, everything: bool) -> Facts:
    """Gives unused space back to the disk."""
    freed = bank.compact()
    return {"freed_bytes": freed, "size_bytes": bank.stats().size_bytes}


def purge(bank: Bank, everything: bool) -> Facts:
    """Erases what was deleted, without the usual wait; with `everything` all items."""
    if everything:
        bank.retire(bank.keys())
    erased = bank.purge(grace_s=0)
    return {"erased": erased, "items": bank.stats().items}


ACTIONS: dict[str, Callable[[Bank, bool], Facts]] = {
    "stats": stats,
    "verify": verify,
    "compact": compact,
    "purge": purge,
}


def look_after(
    action: str, root: Path, namespace: str = "", everything: bool = False
) -> list[Facts]:
    """Runs an action on every bank; one that is refused says why under `refused`."""
    rows = []
    for path in banks_in(root, namespace):
        row: Facts = {"fingerprint": path.parent.name, "rank": int(path.name[4:] or 0)}
        try:
            bank = open_as_it_is(path)
            row["model"] = bank.file.note("model")
            try:
                row |= ACTIONS[action](bank, everything)
            finally:
                bank.close()
        except BankRefused as refusal:
            row["refused"] = str(refusal)
        rows.append(row)
    return rows


def main(argv: list[str]) -> int:
    """0: done. 1: a bank was refused, or has problems."""
    parser = argparse.ArgumentParser(prog="inferscale_vllm.bank.tool")
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("--bank-dir", type=Path, required=True)
    parser.add_argument("--namespace", default="", help="only banks whose fingerprint begins so")
    parser.add_argument("--everything", action="store_true", help="purge: all items")
    given = parser.parse_args(argv)
    rows = look_after(given.action, given.bank_dir, given.namespace, given.everything)
    sys.stdout.write(json.dumps({"banks": rows}) + "\n")
    return int(any("refused" in row or row.get("problems") for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
