"""Signatures of released packages, written down to test their call shapes without installing them.

`python tests/sdk/compat/snapshot.py` installs each release into a throw-away environment and
rewrites `snapshots/`. Owns the list of releases; knows nothing of InferScale.
"""

import argparse
import importlib
import inspect
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "snapshots"
RELEASES = (
    ("mem0ai", "1.0.11"),
    ("mem0ai", "2.2.1"),
    ("zep-cloud", "3.30.0"),
    ("zep-cloud", "4.0.1"),
    ("letta-client", "1.12.1"),
)
_MODULES = {"mem0ai": "mem0", "zep-cloud": "zep_cloud", "letta-client": "letta_client"}
_CLIENTS = {
    "mem0ai": ("Memory", "AsyncMemory", "MemoryClient", "AsyncMemoryClient"),
    "zep-cloud": ("Zep", "AsyncZep"),
    "letta-client": ("Letta", "AsyncLetta"),
}
# The parts of the clients that are about memory; what is left out is refused as a whole.
_PARTS = {
    "mem0ai": ("",),
    "zep-cloud": ("user.", "thread.", "graph.", "lookup."),
    "letta-client": (
        *("agents.passages.", "agents.blocks.", "agents.archives."),
        *("archives.", "blocks.", "passages."),
    ),
}
_SKIPPED = ("with_", "_", "copy", "close", "is_closed", "base_url", "api_key", "timeout", "max_")


def describe(package: str) -> dict[str, Any]:
    """Every public method of the installed package's clients, by dotted name."""
    module = importlib.import_module(_MODULES[package])
    clients = {}
    for name in _CLIENTS[package]:
        kind = getattr(module, name)
        # Mem0's constructors open stores; the others keep their methods on sub-clients.
        target = kind if package == "mem0ai" else kind(api_key="none")
        methods = {
            method: found
            for method, found in walk(target, package)
            if method.startswith(_PARTS[package])
        }
        clients[name] = {"__init__": parameters(kind.__init__), **methods}
    version = metadata.version(package)
    return {"package": package, "version": version, "clients": clients}


def walk(target: Any, package: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, parameters) of the methods of a client and of its sub-clients."""
    for name in sorted(dir(target)):
        if name.startswith(_SKIPPED):
            continue
        member = getattr(target, name, None)
        if inspect.isroutine(member):
            yield prefix + name, parameters(member)
        elif type(member).__module__.startswith(_MODULES[package]) and not prefix.count(".") > 2:
            yield from walk(member, package, f"{prefix}{name}.")


def parameters(function: Any) -> list[list[str]]:
    """[name, kind, "required" or "optional"] of each parameter, without the transport's."""
    transport = ("self", "request_options", "timeout", "extra_headers", "extra_query", "extra_body")
    return [
        [name, each.kind.name.lower(), "required" if _is_required(each) else "optional"]
        for name, each in inspect.signature(function).parameters.items()
        if name not in transport
    ]


def _is_required(parameter: inspect.Parameter) -> bool:
    variadic = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    return parameter.default is parameter.empty and not variadic


def path_of(package: str, version: str) -> Path:
    """Where a release's snapshot lies."""
    return FOLDER / f"{package}-{version}.json"


def take(package: str, version: str, folder: Path) -> dict[str, Any]:
    """Install the release under `folder` and describe it from there."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{package}=={version}"], check=True)
    env = {**os.environ, "MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)}
    command = [python, __file__, "--describe", package]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    described: dict[str, Any] = json.loads(done.stdout)
    return described


def write(description: dict[str, Any]) -> None:
    """One method a line, so that a difference between releases reads as one."""
    clients = []
    for name, methods in description["clients"].items():
        lines = [f"   {json.dumps(method)}: {json.dumps(ps)}" for method, ps in methods.items()]
        clients.append(f"  {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n  }")
    package, version = description["package"], description["version"]
    text = (
        f'{{\n "package": {json.dumps(package)},\n "version": {json.dumps(version)},\n'
        ' "clients": {\n' + ",\n".join(clients) + "\n }\n}\n"
    )
    assert json.loads(text) == description
    path_of(package, version).write_text(text)


def main() -> None:
    """Take all snapshots, or describe one installed package on standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--describe", choices=sorted(_MODULES))
    package = parser.parse_args().describe
    if package:
        sys.stdout.write(json.dumps(describe(package)))
        return
    for name, version in RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            write(take(name, version, Path(folder)))


if __name__ == "__main__":
    main()
