"""What a database's error means for the caller: do it again, come back later, or mend the request.

Owns the table of causes and the one place where writes are repeated. Invariants: only what the
database itself has undone is repeated; what leaves the store is a `SidecarError` without SQL,
addresses or parameters, which stand in the log.
"""

import asyncio
import functools
import inspect
import logging
import random
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from inferscale_sidecar.errors import InvalidInput, SidecarError, StoreUnavailable

log = logging.getLogger(__name__)
C = TypeVar("C", bound=type)

MAX_ATTEMPTS = 6
_FIRST_PAUSE_S = 0.01

_CONFLICTS = {"40001", "40P01"}  # serialization_failure, deadlock_detected
_CAUSES = {
    "08": "the connection broke off",
    "25006": "it is read-only: a standby, or on its way there",
    "53": "it has no room: connections, memory or disk",
    "55P03": "a lock could not be had in time",
    "57014": "a statement took longer than store.statement_timeout_s",
    "57P": "it is shutting down or starting",
    "58": "its disk failed",
}
"""By SQLSTATE or the beginning of one."""
_SQLITE_CAUSES = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked",
    sqlite3.SQLITE_LOCKED: "another process keeps it locked",
    sqlite3.SQLITE_FULL: "its disk is full",
    sqlite3.SQLITE_IOERR: "its disk failed",
    sqlite3.SQLITE_READONLY: "its file cannot be written to",
    sqlite3.SQLITE_CANTOPEN: "its file cannot be opened",
}


class TransactionConflict(StoreUnavailable):
    """The database gave this transaction up for another's sake. Nothing of it was done."""


@contextmanager
def translated(*, committing: bool = False) -> Iterator[None]:
    """Around calls of the database: what they raise becomes ours where it is the database's fault.

    Other errors, such as violated constraints, pass.

    Args:
        committing: the outcome is unknown if the connection breaks off now.
    """
    try:
        yield
    except (StatementError, PoolTimeout) as error:
        ours = _meaning(error, committing)
        if ours is None:
            raise
        raise ours from error


def _meaning(error: StatementError | PoolTimeout, committing: bool) -> SidecarError | None:
    if isinstance(error, PoolTimeout):
        return _unavailable("all its connections are in use; see store.pool_size", error)
    if isinstance(error.orig, SidecarError):  # by a column's type
        return error.orig
    if not isinstance(error, DBAPIError):
        return None
    state = getattr(error.orig, "sqlstate", None)
    if state in _CONFLICTS:
        return TransactionConflict("other writes came in the way too often; retry")
    if "NUL (0x00)" in str(error.orig):
        return InvalidInput("text contains NUL (U+0000); remove it")
    cause = _cause(error, state)
    if cause is None:
        return None
    if committing and error.connection_invalidated:
        cause += " while it committed, so that this write may be there or not: look, or repeat it"
    return _unavailable(cause, error)


def _cause(error: DBAPIError, state: str | None) -> str | None:
    if isinstance(error.orig, sqlite3.OperationalError):
        return _SQLITE_CAUSES.get(error.orig.sqlite_errorcode & 0xFF)
    for prefix, cause in _CAUSES.items():
        if state and state.startswith(prefix):
            return cause
    is_lost = error.connection_invalidated or type(error.orig).__name__ == "ConnectionTimeout"
    if is_lost or (state is None and type(error.orig).__name__ == "OperationalError"):
        return "it does not answer"
    return None


def _unavailable(cause: str, error: Exception) -> StoreUnavailable:
    detail = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    log.warning("the database is unavailable: %s (%s)", cause, detail)
    return StoreUnavailable(
        f"the memory database is unavailable: {cause}; retry, it is tried anew each time"
    )


def repeating(cls: C) -> C:
    """Class decorator: every public coroutine is repeated, with a bound, after a conflict.

    Each is one transaction (`store.base`), so that nothing is done twice.
    """
    for name, method in inspect.getmembers(cls, inspect.iscoroutinefunction):
        if not name.startswith("_"):
            setattr(cls, name, _repeated(method))
    return cls


def _repeated(method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(method)
    async def run(*args: Any, **kwargs: Any) -> Any:
        for attempt in range(1, MAX_ATTEMPTS):
            try:
                return await method(*args, **kwargs)
            except TransactionConflict:
                pause_s = _FIRST_PAUSE_S * 2**attempt * random.uniform(0.5, 1)
                await asyncio.sleep(pause_s)
        return await method(*args, **kwargs)

    return run
