"""What commands print: data to stdout, everything else to stderr.

Owns formats, colours and exit codes. Does not own what is said.
Invariant: with --json, stdout holds exactly one JSON document, also after an error.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from inferscale_sidecar.errors import (
    ConfigError,
    EngineUnavailable,
    InvalidInput,
    SidecarError,
)

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = 1
OK, FAILED, USAGE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130


def exit_code(error: SidecarError) -> int:
    """Which code the process ends with."""
    if isinstance(error, EngineUnavailable):
        return UNREACHABLE
    return USAGE if isinstance(error, ConfigError | InvalidInput) else FAILED


def _split_remedy(message: str) -> tuple[str, str]:
    """Our messages read "what happened; what to do"."""
    what, found, remedy = message.partition("; ")
    return (what, remedy) if found else (message, "")


class Output:
    """One command's voice.

    Args:
        as_json: data and errors as one JSON document.
        quiet: no stages and notes.
    """

    def __init__(self, *, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json = as_json
        self._quiet = quiet
        self._consoles: dict[str, Console] = {}

    def _console(self, stream: str) -> "Console":
        from rich.console import Console

        if stream not in self._consoles:
            self._consoles[stream] = Console(
                stderr=stream == "stderr", highlight=False, soft_wrap=True
            )
        return self._consoles[stream]

    def data(self, payload: Mapping[str, Any], text: str) -> None:
        """The command's result: `payload` with --json, else `text`."""
        if self.as_json:
            sys.stdout.write(json.dumps({"schema": SCHEMA, **payload}, default=str) + "\n")
        else:
            self._console("stdout").print(text, markup=False)
        sys.stdout.flush()

    def table(self, key: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
        """Rows under `key` with --json, else a table with these of their fields."""
        if self.as_json:
            self.data({key: list(rows)}, "")
            return
        from rich.table import Table

        table = Table(*(c.replace("_", " ").upper() for c in columns), box=None, pad_edge=False)
        for row in rows:
            table.add_row(*("" if row[c] is None else str(row[c]) for c in columns))
        self._console("stdout").print(table)

    def note(self, text: str) -> None:
        """One line for people, to stderr."""
        if not self._quiet:
            self._console("stderr").print(text, markup=False)

    def error(self, error: SidecarError) -> int:
        """Say what failed; the exit code that belongs to it."""
        return self.problem(error.code, error.message, exit_code(error))

    def problem(self, code: str, message: str, status: int) -> int:
        """Say what failed, as text or JSON; returns `status`."""
        what, remedy = _split_remedy(message)
        if self.as_json:
            self.data({"code": code, "message": what, "remedy": remedy or None}, "")
        else:
            console = self._console("stderr")
            console.print("[bold red]error:[/] ", end="")
            console.print(what, markup=False)
            if remedy:
                console.print("\n[bold]hint:[/] ", end="")
                console.print(remedy, markup=False)
        return status

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[str], None]]:
        """One step of long work: shown while it runs, then one line with its time.

        Yields a function that shows a detail, such as a percentage.
        """
        if self._quiet:
            yield lambda _detail: None
            return
        console, started = self._console("stderr"), time.monotonic()
        with console.status(name) as status:
            yield lambda detail: status.update(f"{name}: {detail}")
        console.print(f"[green]✓[/] {name:<12} {time.monotonic() - started:6.1f} s")
