"""The distribution: a light base, every package typed and shipped, fast and honest entry points."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = [
    ROOT / path for path in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
]
HEAVY = ("torch", "vllm", "transformers", "sqlalchemy", "fastapi", "faiss", "numpy")


def imported_by(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has after the statement."""
    code = f"{statement}\nimport sys\nsys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "tests"
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_base_install_is_httpx_and_pydantic_only() -> None:
    names = {dependency.split(">")[0] for dependency in PROJECT["project"]["dependencies"]}
    assert names == {"httpx", "pydantic"}


@pytest.mark.parametrize(
    "statement",
    [
        "import inferscale",
        "import inferscale_sidecar.cli.app",
        "import inferscale_sidecar.config",
        "import inferscale_sidecar.engine.supervisor",
        "import inferscale.protocol.engine",
    ],
)
def test_light_modules_import_nothing_heavy(statement: str) -> None:
    assert not imported_by(statement) & set(HEAVY)


def test_every_package_of_ours_is_shipped_and_typed() -> None:
    sources = [ROOT / top for top in ("sdk", "sidecar", "kernels", "integrations")]
    found = {path.parent for top in sources for path in top.glob("*/__init__.py")}
    assert found == {package for package in PACKAGES if package.is_dir()} == set(PACKAGES)
    assert all((package / "py.typed").is_file() for package in PACKAGES)


def test_dependencies_have_upper_and_lower_bounds() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    everything = [
        *PROJECT["project"]["dependencies"],
        *(d for group in extras.values() for d in group),
    ]
    loose = [
        dependency
        for dependency in everything
        if not dependency.startswith("inferscale-memory[")
        and not (">=" in dependency and "<" in dependency)
    ]
    assert not loose


def test_the_command_loads_nothing_heavy_until_it_is_needed() -> None:
    """So that `--help` takes 0.3 s and not ten."""
    program = (
        "import sys; from inferscale_sidecar.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(set(sys.modules) & set(sys.argv[1:])), file=sys.stderr)"
    )
    heavy = ("torch", "vllm", "transformers", "sqlalchemy", "fastapi", "faiss", "pydantic", "numpy")
    done = subprocess.run(
        [sys.executable, "-c", program, *heavy], check=True, capture_output=True, text=True
    )
    assert "Usage" in done.stdout and done.stderr.strip() == "[]"


def test_no_package_marker_in_the_top_level_folders() -> None:
    for folder in ("sdk", "sidecar", "kernels", "integrations", "tests"):
        assert not (ROOT / folder / "__init__.py").exists()
