"""The demo model's cache: made once, complete or absent."""

from pathlib import Path

import pytest

from inferscale_sidecar.engine import demo_model
from inferscale_sidecar.engine.demo_model import Progress


def write_model(target: Path, progress: Progress) -> None:
    progress("writing", 0.5)
    (target / "config.json").write_text("{}")


def fail(target: Path, progress: Progress) -> None:
    (target / "config.json").write_text("{")
    raise OSError("disk full")


def must_not_run(target: Path, progress: Progress) -> None:
    raise AssertionError("converted again")


def test_it_is_made_once(tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    folder = demo_model.prepare(
        tmp_path, convert=write_model, progress=lambda *stage: seen.append(stage)
    )
    assert (folder / "config.json").exists()
    assert seen == [("writing", 0.5), ("done", 1.0)]
    assert demo_model.prepare(tmp_path, convert=must_not_run) == folder


def test_a_failure_leaves_nothing_and_the_next_try_succeeds(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk full"):
        demo_model.prepare(tmp_path, convert=fail)
    assert not demo_model.path(tmp_path).exists()
    assert demo_model.prepare(tmp_path, convert=write_model).is_dir()


def test_what_a_killed_process_left_is_swept(tmp_path: Path) -> None:
    stale = tmp_path / f".{demo_model.path(tmp_path).name}.tmp-killed"
    stale.mkdir()
    (stale / "model.safetensors").write_text("half")
    demo_model.prepare(tmp_path, convert=write_model)
    assert not stale.exists()
