"""The benchmark of the integrations asks every way the same, and knows every integration."""

import ast
import tomllib
from pathlib import Path

from benchmarks.integrations.__main__ import FRAMEWORKS, row
from benchmarks.integrations.arms import Arms
from benchmarks.integrations.worker import WARM_UP, _measured

ROOT = Path(__file__).parents[2]
NO_FRAMEWORK = {"inferscale_shared"}


async def test_each_question_is_asked_in_every_way() -> None:
    heard: dict[str, list[str]] = {"hand": [], "ours": []}
    order: list[str] = []

    def by_hand(text: str) -> None:
        heard["hand"].append(text)
        order.append("hand")

    async def attached(text: str) -> None:
        heard["ours"].append(text)
        order.append("ours")

    times = await _measured(Arms(by_hand, attached), 20, seed=1)
    assert {name: len(found) for name, found in times.items()} == {"by_hand": 20, "attached": 20}
    assert heard["hand"] == heard["ours"]
    assert len(set(heard["hand"])) == WARM_UP + 20
    firsts = set(order[::2])
    assert firsts == {"hand", "ours"}, "neither way is always the first"


def test_a_row_compares_the_same_questions() -> None:
    by_hand = [float(n) for n in range(1, 101)]
    times = {
        "by_hand": by_hand,
        "attached": [n + 2 for n in by_hand],
        "remembered": [n + 5 for n in by_hand],
    }
    found = row("mcp", "1.0", times)
    assert (found["by_hand_ms"], found["added_ms"], found["remember_ms"]) == (50.5, 2.0, 3.0)
    assert found["lines"] > 100
    del times["remembered"]
    assert row("mcp", "1.0", times).keys() == found.keys()


def test_every_integration_has_a_row_an_extra_and_an_arm() -> None:
    packages = {
        folder.name
        for folder in (ROOT / "integrations").glob("inferscale_*")
        if (folder / "__init__.py").exists()
    }
    assert {package for package, _ in FRAMEWORKS.values()} == packages - NO_FRAMEWORK
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in FRAMEWORKS:
        assert extra in extras["optional-dependencies"]
        module = f"{extra.replace('-', '_')}.py"
        tree = ast.parse((ROOT / "benchmarks" / "integrations" / "arms" / module).read_text())
        assert "arms" in {getattr(node, "name", None) for node in tree.body}
