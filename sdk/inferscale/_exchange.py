"""One logic for both clients: generators that say what to do next, and never do it.

A flow yields `Send` or `Sleep` and is sent back what came of it; its return value is the result.
The drivers in `_transport` are the only code that waits. Invariant: nothing here blocks or awaits.
"""

import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Protocol, TypeVar

import httpx
from pydantic import ValidationError

from inferscale import _operations
from inferscale._listing import Listing, list_page
from inferscale._operation import Operation
from inferscale._results import BuildStatus, ListResult
from inferscale._retry import RetryPolicy
from inferscale._status import error_from_response, request_id_of
from inferscale._validate import explain
from inferscale.errors import (
    APIConnectionError,
    APIError,
    APIResponseError,
    NotReadyError,
    RateLimitError,
    UnavailableError,
)

T = TypeVar("T")
PAGE_SIZE = 200
_POLL_S = (0.05, 0.5)
_PROBE_S = 5.0
_NOT_FOUND = "not_found"


@dataclass(frozen=True)
class Send:
    """Send this; answer with the response, or with the APIError that came instead."""

    operation: Operation[Any]


@dataclass(frozen=True)
class Sleep:
    """Wait; answer with None."""

    seconds: float


Flow = Generator[Send | Sleep, httpx.Response | APIError | None, T]


def exchange(
    operation: Operation[T], policy: RetryPolicy, *, jitter: Callable[[], float] = random.random
) -> Flow[T]:
    """Send `operation` until it is answered or `policy` gives up."""
    for attempt in count():
        outcome = yield Send(operation)
        error = outcome if isinstance(outcome, APIError) else None
        if isinstance(outcome, httpx.Response):
            error = error_from_response(outcome)
            if error is None:
                return _read(operation, outcome)
        assert error is not None, "a driver answered Send with nothing"
        # Any other code, or none, means a wrong address: no such route, or no sidecar at all.
        if operation.if_missing and error.code == _NOT_FOUND:
            return operation.if_missing()
        delay_s = policy.delay_s(attempt, error, repeatable=operation.repeatable, jitter=jitter())
        if delay_s is None:
            raise error
        yield Sleep(delay_s)
    raise AssertionError("unreachable: count() does not end")


class Page(Protocol):
    """One page of a list."""

    @property
    def results(self) -> Sequence[Any]: ...

    @property
    def total(self) -> int: ...

    @property
    def next_cursor(self) -> str | None: ...


def every_page(
    page_at: Callable[[str | None], Operation[Page]], policy: RetryPolicy
) -> Flow[tuple[list[Any], int]]:
    """(what all pages have, the total). `page_at` gives the page at a cursor."""
    results: list[Any] = []
    cursor: str | None = None
    while True:
        page = yield from exchange(page_at(cursor), policy)
        results += page.results
        if page.next_cursor is None:
            return results, page.total
        if page.next_cursor == cursor:
            raise APIResponseError(f"the cursor {cursor!r} leads to itself; listing would not end.")
        cursor = page.next_cursor


def list_all(listing: Listing, policy: RetryPolicy) -> Flow[ListResult]:
    """All pages of a list as one."""

    def page_at(cursor: str | None) -> Operation[Any]:
        return list_page(listing, limit=PAGE_SIZE, cursor=cursor)

    results, total = yield from every_page(page_at, policy)
    return ListResult(results=results, total=total)


def wait_until_ready(
    *, timeout_s: float, builds: bool, clock: Callable[[], float]
) -> Flow[BuildStatus]:
    """Poll until the sidecar is ready, and with `builds` until nothing waits to be built."""
    deadline, pause_s = clock() + timeout_s, _POLL_S[0]
    once = RetryPolicy(max_retries=0)
    while True:
        # A probe that hangs must not outlast the wait, however patient the client is otherwise.
        patience_s = min(max(deadline - clock(), _POLL_S[0]), _PROBE_S)
        try:
            yield from exchange(replace(_operations.ready(), timeout_s=patience_s), once)
            status = yield from exchange(replace(_operations.builds(), timeout_s=patience_s), once)
        except (APIConnectionError, RateLimitError, UnavailableError) as error:
            waiting_for: APIError | str = error
        else:
            if status.is_done or not builds:
                return status
            waiting_for = f"{status.queued} builds are queued and {status.building} running."
        left_s = deadline - clock()
        if left_s <= 0:
            cause = waiting_for if isinstance(waiting_for, APIError) else None
            reason = cause.message if cause else waiting_for
            raise NotReadyError(f"not ready after {timeout_s:g} s: {reason}") from cause
        yield Sleep(min(pause_s, left_s))
        pause_s = min(pause_s * 1.5, _POLL_S[1])


def _read(operation: Operation[T], response: httpx.Response) -> T:
    try:
        return operation.read(response)
    except (ValueError, LookupError, TypeError) as error:
        why = explain(error) if isinstance(error, ValidationError) else f"{error}"
        raise APIResponseError(
            f"the answer to {operation.method} {operation.path} has another shape: {why}.",
            status_code=response.status_code,
            request_id=request_id_of(response),
        ) from error
