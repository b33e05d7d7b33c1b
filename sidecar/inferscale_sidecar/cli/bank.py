"""`bank`: runs the engine half's tool where vLLM is installed, and prints what it found.

Owns the tables. Does not own the banks: their format is the engine half's.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from inferscale_sidecar.cli.output import FAILED, OK, Output
from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import SidecarError

TOOL = "inferscale_vllm.bank.tool"
_COLUMNS = {
    "stats": ("items", "tenants", "used_mib", "size_mib", "limit_mib", "evicted", "in_use"),
    "verify": ("items", "ok"),
    "compact": ("freed_mib", "size_mib"),
    "purge": ("erased", "items"),
}


class BankToolFailed(SidecarError):
    """The tool could not be run, or broke off."""

    code = "bank_tool_failed"


def look_after_bank(
    config: Config, output: Output, action: str, *, namespace: str = "", everything: bool = False
) -> int:
    """Runs `stats`, `verify`, `compact` or `purge`; 1 if a bank is refused or has problems."""
    argv = [config.engine.python or sys.executable, "-m", TOOL, action]
    argv += ["--bank-dir", str(config.bank_dir), "--namespace", namespace]
    argv += ["--everything"] if everything else []
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, check=False)
        rows = json.loads(ended.stdout)["banks"]
    except (OSError, ValueError) as error:
        tail = ended.stderr.strip().rpartition("\n")[2] if isinstance(error, ValueError) else error
        raise BankToolFailed(
            f"{argv[0]} could not look at the banks ({tail}); install 'inferscale-memory[engine]' "
            "there, or name vLLM's interpreter in engine.python"
        ) from error
    _show(output, action, rows, str(config.bank_dir))
    return FAILED if ended.returncode else OK


def _show(output: Output, action: str, rows: list[dict[str, Any]], folder: str) -> None:
    if output.as_json:
        output.data({"bank_dir": folder, "banks": rows}, "")
        return
    if not rows:
        output.note(f"no bank in {folder}")
    shown = [_readable(row) for row in rows]
    done = [row for row in shown if not row["refused"]]
    if done:
        output.table("banks", done, ("model", "fingerprint", "rank", *_COLUMNS[action]))
    for row in shown:
        for problem in filter(None, (row["refused"], *row.get("problems", ()))):
            output.note(str(problem))


def _readable(row: Mapping[str, Any]) -> dict[str, Any]:
    sizes = {
        name: f"{row[key] / 2**20:.1f}"
        for name, key in (
            ("used_mib", "used_bytes"),
            ("size_mib", "size_bytes"),
            ("limit_mib", "limit_bytes"),
            ("freed_mib", "freed_bytes"),
        )
        if key in row
    }
    short = {"fingerprint": row["fingerprint"][:8], "evicted": row.get("evicted_items")}
    return {"model": None, "refused": None, **row, **sizes, **short}
