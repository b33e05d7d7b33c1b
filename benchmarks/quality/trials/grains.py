"""LoCoMo's conversations cut into items of other sizes, and the turns that facts come from.

Owns reading them; nothing of that data is part of this repository.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.quality.cases import Case, Pool, locomo

GRAINS = {"facts": 1, "pairs": 2, "fours": 4, "turns": 1}
"""Items of a kind: how many facts one holds. `turns` are what was said, with the speaker."""


def items_of(grain: str, facts: int) -> int:
    """As many items of a grain as hold so many facts; other kinds of cases hold one each."""
    return max(1, facts // GRAINS.get(grain, 1))


def cut(path: Path, count: int, conversations: int) -> list[Case]:
    """The questions of `cases.locomo`, once for each grain, which is the case's subject."""
    asked = locomo(path, count, conversations=conversations)
    found = []
    for conversation in json.loads(path.read_text())[:conversations]:
        name = str(conversation["sample_id"])
        for grain in GRAINS:
            pool = Pool(f"{name} {grain}", tuple(dict.fromkeys(_items(conversation, grain))))
            own = [case for case in asked if case.pool.name == name]
            found += [Case(grain, pool, case.question, case.answer) for case in own]
    return found


def sources(path: Path) -> dict[str, list[str]]:
    """By fact: the turns that it comes from, and those of its session with other facts before."""
    found: dict[str, list[str]] = {}
    for conversation in json.loads(path.read_text()):
        said = dict(_turns(conversation))
        for session in conversation["observation"].values():
            facts = [fact for own in session.values() for fact in own]
            cited = [said[i] for _, ids in facts for i in _list(ids) if i in said]
            for text, _ in facts:
                found[str(text)] = list(dict.fromkeys(cited))
    return found


def _items(conversation: dict[str, Any], grain: str) -> Iterator[str]:
    if grain == "turns":
        yield from (text for _, text in _turns(conversation))
        return
    by_number = sorted(conversation["observation"], key=lambda name: int(name.split("_")[1]))
    for session in by_number:
        for own in conversation["observation"][session].values():
            texts, size = [str(text) for text, _ in own], GRAINS[grain]
            for at in range(0, len(texts), size):
                yield " ".join(texts[at : at + size])


def _turns(conversation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for session in conversation["conversation"].values():
        if isinstance(session, list):
            for turn in session:
                yield turn["dia_id"], f"{turn['speaker']}: {turn['text']}"


def _list(ids: Any) -> list[str]:
    return [ids] if isinstance(ids, str) else list(ids)
