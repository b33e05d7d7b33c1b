"""Public names of an integration that are imported when they are first used.

Owns the import budget: importing a package costs nothing, and a framework that is missing or too
old is an error that names the extra.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, where: Mapping[str, str], *, extra: str, frameworks: tuple[str, ...]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's module-level `__getattr__` and `__dir__` (PEP 562).

    Args:
        package: the package's name.
        where: public name → the module of the package that defines it.
        extra: the extra of `inferscale-memory` that installs the framework.
        frameworks: top-level modules whose absence means that the extra is not installed.
    """

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = import_module(f"{package}.{where[name]}")
        except ImportError as error:  # it is not there, or so old that a name is missing
            if (error.name or "").partition(".")[0] not in frameworks:
                raise
            raise ImportError(
                f"{package}.{name} needs the package {error.name}, or a newer one: "
                f"pip install 'inferscale-memory[{extra}]'",
                name=error.name,
            ) from None
        return getattr(module, name)

    return get, lambda: sorted(where)
