"""Checks of a running sidecar. Owns the codes IS020 to IS029 (documented in docs/cli.md)."""

import re
from collections import Counter

from inferscale_sidecar.cli.checks import Check
from inferscale_sidecar.cli.remote import base_url, get, parts, post
from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import SidecarError

QUALITY_TIMEOUT_S = 600.0
_FALLBACK = re.compile(
    r'^inferscale_fallback_requests_total\{.*?reason="([^"]+)".*?\} ([0-9.e+]+)$', re.MULTILINE
)


def check_running(config: Config, url: str | None, api_key: str | None) -> list[Check]:
    """All checks that need a running sidecar; one warning if there is none."""
    base = base_url(config, url)
    try:
        found, metrics = parts(base), get(base, "/metrics", api_key).text
    except (SidecarError, ValueError, KeyError):
        remedy = "inferscale-sidecar start (what follows needs it)"
        return [Check("IS020", "warn", f"no sidecar answers at {base}", remedy)]
    checks = [Check("IS020", "ok", f"a sidecar answers at {base}")]
    checks.append(_part("IS021", "the engine", found.get("engine", "unknown"), "ready"))
    if not found.get("engine", "").startswith("ready"):
        return checks
    checks.append(_part("IS022", "injection", found.get("injection", "unknown"), "on"))
    checks.append(_part("IS023", "the self-test", found.get("self_test", "not run"), "passed"))
    checks.append(_fallbacks(metrics))
    checks.append(_builds(found.get("builds", "nothing is built")))
    return checks


def check_quality(config: Config, url: str | None, api_key: str | None) -> Check:
    """Has the sidecar compare injected memory with its text; refused injection stays off."""
    base = base_url(config, url)
    remedy = "needs a running sidecar and an admin key (--url, --api-key)"
    try:
        answer = post(base, "/v1/quality-checks", api_key, timeout_s=QUALITY_TIMEOUT_S)
        found = answer.json()
        if answer.status_code != 200:
            return Check(
                "IS026", "warn", f"quality not checked: {found['error']['message']}", remedy
            )
        passed, what = found["passed"], f"quality of injected memory: {found['detail']}"
    except (SidecarError, ValueError, KeyError, TypeError):
        return Check("IS026", "warn", f"quality not checked: no sidecar answers at {base}", remedy)
    if passed:
        return Check("IS026", "ok", f"{what} ({found['seconds']} s)")
    if passed is None:
        return Check("IS026", "warn", what, "see IS022 to IS025")
    return Check("IS026", "fail", what, "injection is off now; try another inject.policy")


def _part(code: str, name: str, state: str, good: str) -> Check:
    if state.startswith(good):
        return Check(code, "ok", f"{name}: {state}")
    is_mild = state.startswith(("starting", "not run", "no verdict", "off", "draining"))
    remedy = "memory is served as text; see the self-test and the engine's log"
    if code == "IS021":
        remedy = "see logs/engine.log in the home folder"
    return Check(code, "warn" if is_mild else "fail", f"{name}: {state}", remedy)


def _fallbacks(metrics: str) -> Check:
    reasons: Counter[str] = Counter()
    for reason, count in _FALLBACK.findall(metrics):
        reasons[reason] += int(float(count))
    seen = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common() if count)
    if not seen:
        return Check("IS024", "ok", "no request fell back to plain text")
    return Check("IS024", "ok", f"requests that fell back to plain text, by reason: {seen}")


def _builds(state: str) -> Check:
    if " failed" in state:
        return Check("IS025", "warn", f"builds: {state}", "see the sidecar's log for the cause")
    return Check("IS025", "ok", f"builds: {state}")
