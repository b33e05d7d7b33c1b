"""Nothing is sent anywhere but where the settings say: no address of anybody's is in the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("sdk", "sidecar", "kernels", "integrations")
ADDRESS = re.compile(r"https?://([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
NOT_CALLED = {
    "127.0.0.1": "this machine",
    "iana.org": "the name of a problem type",
    "api.example.com": "an example in a docstring",
    "sidecar.internal": "an example in a docstring",
}


def test_no_address_but_this_machines_is_in_the_code() -> None:
    found = {
        host
        for package in PACKAGES
        for file in (ROOT / package).rglob("*.py")
        for host in ADDRESS.findall(file.read_text(encoding="utf-8"))
    }
    assert found <= NOT_CALLED.keys()


def test_no_dependency_is_there_to_watch_users() -> None:
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8").casefold()
    for name in ("posthog", "sentry", "segment", "mixpanel", "amplitude", "datadog"):
        assert name not in metadata
