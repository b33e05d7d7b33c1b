"""docs/models.md lists the models that are tried, and says of each what its test expects."""

import re
from pathlib import Path

from .test_models import ALWAYS
from .zoo import MODELS

PAGE = Path(__file__).parents[3] / "docs" / "models.md"


def test_the_page_has_every_model() -> None:
    rows = re.findall(r"^\| `([\w-]+)`( ●)? \|.*\| (works|declined) \|$", PAGE.read_text(), re.M)
    assert {name: bool(always) for name, always, _ in rows} == {
        name: name in ALWAYS for name in MODELS
    }
    for name, _, said in rows:
        expected = "works" if MODELS[name].declined is None else "declined"
        assert said == expected, name
