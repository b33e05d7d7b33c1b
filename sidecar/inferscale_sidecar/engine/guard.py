"""Runs one command and never outlives the process that started it. Standard library only.

    python guard.py GRACE_SECONDS COMMAND [ARGUMENT…]

The supervisor holds the other end of this process's standard input. When that closes, the
supervisor is gone (even by kill -9): the command gets SIGTERM, then all of its group SIGKILL.
Invariant: no other process of the group is left when the guard ends. Linux only (/proc).
"""

import os
import select
import signal
import subprocess
import sys
import time

_POLL_S = 0.2


def main(argv: list[str]) -> int:
    """Run `argv[2:]` until it ends, a signal comes or standard input closes; its exit code."""
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: asked.append(received))
    child = subprocess.Popen(argv[2:], stdin=subprocess.DEVNULL)
    while child.poll() is None and not asked:
        if select.select([0], [], [], _POLL_S)[0] and not os.read(0, 64):
            break
    if child.poll() is None:
        _stop(child, grace_s=float(argv[1]))
    _kill_rest_of_group()
    code = child.returncode
    return 128 - code if code < 0 else code  # as a shell says it: 128 + signal


def _stop(child: subprocess.Popen[bytes], *, grace_s: float) -> None:
    child.terminate()
    deadline = time.monotonic() + grace_s
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_S / 4)
    if child.poll() is None:
        child.kill()
        child.wait()


def _kill_rest_of_group() -> None:
    """Kill what the command left behind, such as an engine core whose API server was killed."""
    mine = os.getpid()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == mine:
            continue
        try:
            if os.getpgid(int(entry)) == mine:
                os.kill(int(entry), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue  # ended meanwhile, or another user's and so not of this group


if __name__ == "__main__":
    sys.exit(main(sys.argv))
