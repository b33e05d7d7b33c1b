"""One body of logic, two drivers: both send the same calls and hand back the same answers."""

import inspect
from typing import Any

import pytest

from inferscale import InferScaleError, NotFoundError
from inferscale.compat._flow import Flow, awaiting, blocking, call


class Backend:
    """Records calls; fails those of `broken`."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def good(self, *args: Any, **kwargs: Any) -> str:
        self.calls.append((args, kwargs))
        return "answer"

    def broken(self) -> None:
        raise NotFoundError("gone")

    def bug(self) -> None:
        raise ZeroDivisionError


class AsyncBackend(Backend):
    async def good(self, *args: Any, **kwargs: Any) -> str:
        return Backend.good(self, *args, **kwargs)

    async def broken(self) -> None:
        Backend.broken(self)

    async def bug(self) -> None:
        Backend.bug(self)


def recovers(self: Any, word: str, *, times: int = 1) -> Flow[list[str]]:
    """Asks, fails, and asks again."""
    answers = []
    for _ in range(times):
        answers.append((yield from call("good", word, kept=1, dropped=None)))
        try:
            yield from call("broken")
        except NotFoundError as error:
            answers.append(error.message)
    return answers


def fails(self: Any, how: str) -> Flow[None]:
    yield from call(how)


class Blocking:
    recovers, fails = blocking(recovers), blocking(fails)

    def __init__(self) -> None:
        self._client = Backend()


class Awaiting:
    recovers, fails = awaiting(recovers), awaiting(fails)

    def __init__(self) -> None:
        self._client = AsyncBackend()


async def test_both_drivers_do_the_same():
    ours, theirs = Blocking(), Awaiting()
    expected = ["answer", "gone"] * 2
    assert ours.recovers("x", times=2) == expected == await theirs.recovers("x", times=2)
    assert ours._client.calls == theirs._client.calls == [(("x",), {"kept": 1})] * 2


@pytest.mark.parametrize(
    ("how", "error"), [("broken", InferScaleError), ("bug", ZeroDivisionError)]
)
async def test_what_a_flow_does_not_catch_comes_out(how, error):
    with pytest.raises(error):
        Blocking().fails(how)
    with pytest.raises(error):
        await Awaiting().fails(how)


def test_methods_show_what_they_take_and_give():
    for method in (Blocking.recovers, Awaiting.recovers):
        signature = inspect.signature(method)
        assert list(signature.parameters) == ["self", "word", "times"]
        assert signature.return_annotation == list[str]
        assert method.__doc__ == "Asks, fails, and asks again."
    assert inspect.iscoroutinefunction(Awaiting.recovers)
    assert not inspect.isgeneratorfunction(Blocking.recovers)
