"""The documentation says what the code does: generated parts are current, links and names exist.

`python tests/architecture/test_docs.py` rewrites the generated parts.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Any, get_args

import pytest

from inferscale_sidecar.config import sections

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]
COMMANDS = (
    "start",
    "run",
    "mcp",
    "status",
    "doctor",
    "version",
    "tenants create",
    "tenants list",
    "tenants limits",
    "keys create",
    "keys list",
    "keys revoke",
    "export",
    "import",
    "bank stats",
    "bank verify",
    "bank compact",
    "bank purge",
)


def type_name(annotation: Any) -> str:
    """A type as a reader of a table wants it."""
    if isinstance(annotation, UnionType):
        kinds = [arg for arg in get_args(annotation) if arg is not type(None)]
        return type_name(kinds[0])
    if str(annotation).startswith("typing.Literal"):
        return ", ".join(get_args(annotation))
    names = {"tuple": "words", "SecretStr": "secret", "str": "text", "Path": "path"}
    name = getattr(annotation, "__name__", str(annotation))
    return names.get(name.split("[")[0], name)


def settings_table() -> str:
    lines = []
    for section, model in sections().items():
        lines += [f"### {section}", "", str(model.__doc__), ""]
        lines += ["| setting | type | default | |", "|---|---|---|---|"]
        for name, field in model.model_fields.items():
            empty = str(field.default) in ("", "None", "()", ".")
            default = "" if empty else f"`{field.default}`"
            kind = type_name(field.annotation)
            lines.append(f"| `{section}.{name}` | {kind} | {default} | {field.description} |")
        lines.append("")
    return "\n".join(lines)


def commands_help() -> str:
    env = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
    env.pop("INFERSCALE_API_KEY", None)
    parts = []
    for command in COMMANDS:
        argv = [sys.executable, "-m", "inferscale_sidecar.cli", *command.split(), "--help"]
        text = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
        body = "\n".join(line.rstrip() for line in text.strip().splitlines())
        parts.append(f"## {command}\n\n```text\n{body}\n```\n")
    return "\n".join(parts)


GENERATED: dict[str, tuple[Path, Callable[[], str]]] = {
    "settings": (DOCS / "configuration.md", settings_table),
    "commands": (DOCS / "cli.md", commands_help),
}


def replaced(text: str, name: str, content: str) -> str:
    pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
    assert re.search(pattern, text, re.DOTALL), f"no place for {name}"
    return re.sub(pattern, lambda m: f"{m[1]}\n{content.rstrip()}\n\n{m[2]}", text, flags=re.DOTALL)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_parts_are_current(name: str) -> None:
    page, make = GENERATED[name]
    text = page.read_text()
    hint = "run: .venv/bin/python tests/architecture/test_docs.py"
    assert replaced(text, name, make()) == text, hint


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_make_targets_that_pages_name_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z]+)", page.read_text()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"


def test_every_doctor_code_is_documented() -> None:
    cli = ROOT / "sidecar" / "inferscale_sidecar" / "cli"
    used = {
        code for file in cli.glob("*.py") for code in re.findall(r'"(IS\d{3})"', file.read_text())
    }
    documented = set(re.findall(r"^\| (IS\d{3}) ", (DOCS / "cli.md").read_text(), re.MULTILINE))
    assert used == documented


if __name__ == "__main__":
    for section_name, (path, build) in GENERATED.items():
        path.write_text(replaced(path.read_text(), section_name, build()))
