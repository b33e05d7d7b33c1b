"""The page on complaints is complete, and every test that it names exists."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "complaints.md").read_text(encoding="utf-8")
NUMBER_OF_COMPLAINTS = 54
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]


def _named(row: str) -> list[str]:
    """Test ids of a row; `…::name` is in the file of the one before."""
    found: list[str] = []
    for name in re.findall(r"`((?:[\w/]+\.py|…)(?:::\w+)?)`", row):
        file = found[-1].partition("::")[0] if name.startswith("…") else ""
        found.append(file + name.lstrip("…"))
    return found


def test_every_complaint_has_one_row() -> None:
    numbers = [int(n) for row in ROWS for n in row.split("|")[1].split(",")]
    assert sorted(numbers) == list(range(1, NUMBER_OF_COMPLAINTS + 1))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_what_a_row_names_exists(row: str) -> None:
    names = _named(row)
    assert names or "cannot occur" in row
    for name in names:
        file, _, function = name.partition("::")
        text = (TESTS / file).read_text(encoding="utf-8")
        assert re.search(rf"def {function or 'test_'}\b" if function else "def test_", text), name
