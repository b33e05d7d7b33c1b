"""What a dialect cannot honour, and how it says so.

Owns the error and the stand-ins for methods that are not there. Invariant: the sentence names the
call and what to do instead; nothing was sent when it is raised.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from inferscale.errors import InferScaleError


class DialectError(InferScaleError, ValueError, NotImplementedError):
    """A call that the other library has and InferScale cannot honour. Nothing was sent."""


def refuse(call: str, reason: str) -> NoReturn:
    """Raise DialectError for `call`, with the reason and the way out in `reason`."""
    raise DialectError(f"{call} cannot be honoured: {reason}.")


def refuse_given(method: str, reasons: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Raise for the first argument that asks for something we have not.

    Args:
        method: name for the message.
        reasons: argument → why it cannot be honoured.
        given: the arguments; None, False and empty containers ask for nothing.
    """
    for name, reason in reasons.items():
        value = given.get(name)
        if value is not None and value is not False and value not in ([], {}, ()):
            refuse(f"{method}({name}={_short(value)})", reason)


def only_known(method: str, known: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """As `refuse_given`, for all of `**given`: a name that nobody knows is a TypeError."""
    for name in given:
        if name not in known:
            raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")
    refuse_given(method, known, given)


def foreign(url: str | None, domain: str) -> str | None:
    """The address if it is one of the other library's own service, which nothing is sent to."""
    # Not parsed: whether an address is well-formed is the SDK's to say.
    host = (url or "").partition("://")[2].partition("/")[0].partition(":")[0]
    return url if host == domain or host.endswith(f".{domain}") else None


def refusing(call: str, reason: str) -> Callable[..., NoReturn]:
    """A method that takes anything and raises DialectError."""

    def method(*_: Any, **__: Any) -> NoReturn:
        refuse(f"{call}()", reason)

    method.__name__ = call.rpartition(".")[2]
    method.__doc__ = f"Not offered: {reason}."
    return method


class Absent:
    """A sub-client that is not there: reading is harmless, calling anything below it raises."""

    def __init__(self, path: str, reason: str) -> None:
        self._path = path
        self._reason = reason

    def __getattr__(self, name: str) -> "Absent":
        if name.startswith("__"):  # copy, pickle and inspect ask for these: they are not calls
            raise AttributeError(name)
        return Absent(f"{self._path}.{name}", self._reason)

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        refuse(f"{self._path}()", self._reason)

    def __repr__(self) -> str:
        return f"<{self._path}: not offered by InferScale>"


def _short(value: object) -> str:
    """A value for a message: type only, if it may hold someone's memory."""
    text = repr(value)
    return text if len(text) <= 40 else type(value).__name__
