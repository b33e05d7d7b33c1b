"""What commands print: streams, JSON, hints, exit codes."""

import json

import pytest

from inferscale_sidecar.cli.output import Output, exit_code
from inferscale_sidecar.errors import (
    ConfigError,
    EngineUnavailable,
    InvalidInput,
    NotFound,
    SidecarError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (InvalidInput("x"), 2),
        (EngineUnavailable("x"), 3),
        (NotFound("x"), 1),
        (SidecarError("x"), 1),
    ],
)
def test_exit_codes(error: SidecarError, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_is_told_with_its_hint_on_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    status = Output().error(ConfigError("server.port = 'x'; choose a number"))
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err == "error: server.port = 'x'\n\nhint: choose a number\n"


def test_brackets_in_messages_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    Output().error(SidecarError("pip install 'inferscale-memory[cpu]' [bold]"))
    assert "inferscale-memory[cpu]' [bold]" in capsys.readouterr().err


def test_with_json_an_error_is_one_document_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).error(NotFound("no such key; list them"))
    out, err = capsys.readouterr()
    expected = {"schema": 1, "code": "not_found", "message": "no such key", "remedy": "list them"}
    assert json.loads(out) == expected
    assert err == ""


def test_an_empty_table_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).table("keys", [], ("id",))
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "keys": []}


def test_stages_go_to_stderr_one_line_each_without_escape_codes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output()
    with output.stage("engine") as detail:
        detail("loading weights")
    out, err = capsys.readouterr()
    assert out == ""
    assert "engine" in err
    assert err.rstrip().endswith(" s")
    assert "\x1b" not in err
    assert len(err.splitlines()) == 1


def test_a_failed_stage_is_not_ticked_off(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError), Output().stage("engine"):
        raise ConfigError("x")
    assert "✓" not in capsys.readouterr().err
