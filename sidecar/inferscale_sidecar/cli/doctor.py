"""`doctor`: runs all checks, even after a failure, and prints one line each."""

from collections.abc import Callable

from inferscale_sidecar.cli.checks import Check, check_installation
from inferscale_sidecar.cli.live_checks import check_quality, check_running
from inferscale_sidecar.cli.output import FAILED, OK, Output
from inferscale_sidecar.cli.store_check import check_store
from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import ConfigError

_COLUMNS = {"ok": "ok  ", "warn": "warn", "fail": "FAIL"}


def examine(
    load: Callable[[], Config],
    url: str | None,
    api_key: str | None,
    output: Output,
    *,
    strict: bool = False,
    quality: bool = False,
) -> int:
    """Check and print; 1 if something fails (with `strict`: or warns), else 0.

    With `quality` the running sidecar also compares injected memory with its text, which takes
    some seconds and switches injection off if it is too far away.
    """
    checks = _all(load, url, api_key, quality=quality)
    bad = {"fail", "warn"} if strict else {"fail"}
    failed = any(check.level in bad for check in checks)
    payload = {"ok": not failed, "checks": [check.__dict__ for check in checks]}
    output.data(payload, "\n".join(_line(check) for check in checks))
    return FAILED if failed else OK


def _all(
    load: Callable[[], Config], url: str | None, api_key: str | None, *, quality: bool
) -> list[Check]:
    try:
        config = load()
    except ConfigError as error:
        what, _, remedy = error.message.partition("; ")
        return [Check("IS001", "fail", f"settings: {what}", remedy)]
    source = Check("IS001", "ok", f"settings are valid (home {config.home})")
    checks = [source, *check_installation(config), check_store(config)]
    checks += check_running(config, url, api_key)
    return [*checks, check_quality(config, url, api_key)] if quality else checks


def _line(check: Check) -> str:
    remedy = f"  →  {check.remedy}" if check.remedy else ""
    return f"{_COLUMNS[check.level]}  {check.code}  {check.what}{remedy}"
