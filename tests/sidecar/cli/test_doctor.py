"""`doctor` and `status`: each finding has its code, its level and a remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferscale_sidecar.cli.checks import Check, check_installation
from inferscale_sidecar.cli.live_checks import check_quality, check_running
from inferscale_sidecar.cli.output import Output
from inferscale_sidecar.cli.remote import base_url, show_status
from inferscale_sidecar.config import Config, load

from .conftest import FakeSidecar


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    def make(**flags: object) -> Config:
        given = {name.replace("__", "."): value for name, value in flags.items()}
        return load(given, env={"INFERSCALE_HOME": str(tmp_path)})

    return make


def installed(config: Config) -> dict[str, Check]:
    return {check.code: check for check in check_installation(config)}


def running(config: Config, url: str) -> dict[str, Check]:
    return {check.code: check for check in check_running(config, url, None)}


def write_model(folder: Path, **config: object) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


@pytest.mark.parametrize(
    ("config", "level", "part"),
    [
        ({"rope_parameters": {"rope_type": "default"}}, "ok", "can be injected"),
        ({"rope_scaling": {"rope_type": "llama3"}}, "ok", "can be injected"),
        ({"rope_scaling": {"type": "dynamic"}}, "warn", "RoPE is dynamic"),
        ({"sliding_window": 512}, "warn", "sliding-window"),
        ({"sliding_window": 512, "use_sliding_window": False}, "ok", "can be injected"),
        ({"mamba_d_state": 16}, "warn", "Mamba"),
        ({"text_config": {"sliding_window": 512}}, "warn", "sliding-window"),
    ],
)
def test_what_would_be_declined_is_told_from_the_model(
    settings: Any, tmp_path: Path, config: dict[str, object], level: str, part: str
) -> None:
    folder = write_model(tmp_path / "model", **config)
    check = installed(settings(engine__model=folder))["IS008"]
    assert check.level == level
    assert part in check.what


def test_a_model_that_is_not_here_is_a_warning(settings: Any) -> None:
    assert installed(settings(engine__model="org/name"))["IS007"].level == "warn"


def test_a_missing_embedder_fails_with_a_remedy(settings: Any) -> None:
    check = installed(settings(embed__model="no_such_package"))["IS009"]
    assert check.level == "fail"
    assert "embed.model" in check.remedy


def test_a_bank_larger_than_the_disk_is_a_warning(settings: Any) -> None:
    check = installed(settings(engine__bank_size_bytes="900TB"))["IS010"]
    assert check.level == "warn"


def test_no_sidecar_is_one_warning(settings: Any) -> None:
    checks = running(settings(), "http://127.0.0.1:9")
    assert [(c.code, c.level) for c in checks.values()] == [("IS020", "warn")]


def test_a_healthy_sidecar_is_all_ok(settings: Any, sidecar: FakeSidecar) -> None:
    checks = running(settings(), sidecar.url)
    assert set(checks) == {"IS020", "IS021", "IS022", "IS023", "IS024", "IS025"}
    assert {check.level for check in checks.values()} == {"ok"}


@pytest.mark.parametrize(
    ("parts", "code", "level"),
    [
        ({"engine": "failed: exit code 1"}, "IS021", "fail"),
        ({"engine": "starting"}, "IS021", "warn"),
        ({"engine": "ready", "injection": "off"}, "IS022", "warn"),
        ({"engine": "ready", "self_test": "failed: 0.3 off"}, "IS023", "fail"),
        ({"engine": "ready", "builds": "3 built, 1 failed"}, "IS025", "warn"),
    ],
)
def test_trouble_is_graded(
    settings: Any, sidecar: FakeSidecar, parts: dict[str, str], code: str, level: str
) -> None:
    sidecar.set_parts(**parts)
    check = running(settings(), sidecar.url)[code]
    assert check.level == level
    assert check.remedy


def test_fallbacks_are_counted_by_reason_over_all_models(
    settings: Any, sidecar: FakeSidecar
) -> None:
    sidecar.routes["/metrics"] = (
        200,
        'inferscale_fallback_requests_total{model_name="a",reason="items_missing"} 2.0\n'
        'inferscale_fallback_requests_total{model_name="b",reason="items_missing"} 3.0\n'
        'inferscale_fallback_requests_total{model_name="b",reason="lora"} 0.0\n',
    )
    check = running(settings(), sidecar.url)["IS024"]
    assert check.what.endswith("items_missing 5")


@pytest.mark.parametrize(("passed", "level"), [(True, "ok"), (False, "fail"), (None, "warn")])
def test_the_quality_check_is_asked_for_and_graded(
    settings: Any, sidecar: FakeSidecar, passed: bool | None, level: str
) -> None:
    body = {"passed": passed, "detail": "KL to the text 0.04", "seconds": 7.5}
    sidecar.routes["/v1/quality-checks"] = (200, json.dumps(body))
    check = check_quality(settings(), sidecar.url, None)
    assert (check.code, check.level) == ("IS026", level)
    assert "KL to the text 0.04" in check.what


def test_a_quality_check_that_is_not_allowed_says_so(settings: Any, sidecar: FakeSidecar) -> None:
    body = {"error": {"message": "the key lacks the scope admin"}}
    sidecar.routes["/v1/quality-checks"] = (403, json.dumps(body))
    check = check_quality(settings(), sidecar.url, None)
    assert check.level == "warn" and "scope admin" in check.what and check.remedy


@pytest.mark.parametrize(("http", "code"), [(200, 0), (503, 1)])
def test_status_says_whether_it_is_ready(
    settings: Any, sidecar: FakeSidecar, capsys: pytest.CaptureFixture[str], http: int, code: int
) -> None:
    sidecar.set_parts(http, engine="ready")
    assert show_status(settings(), sidecar.url, None, Output(as_json=True)) == code
    found = json.loads(capsys.readouterr().out)
    assert found["engine"] == "ready"
    assert found["memories"]["ready"] == 3


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", "http://127.0.0.1:8420"),
        ("0.0.0.0", "http://127.0.0.1:8420"),
        ("::1", "http://[::1]:8420"),
    ],
)
def test_where_the_sidecar_is_looked_for(settings: Any, host: str, expected: str) -> None:
    assert base_url(settings(server__host=host), None) == expected
