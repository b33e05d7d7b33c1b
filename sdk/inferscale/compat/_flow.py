"""One body of logic for a blocking and an awaiting client.

A flow is a generator of `Call`s on the SDK's client, which is sent back what came of each. Written
once, it becomes a method of both clients: `blocking(flow)` and `awaiting(flow)`. Owns no logic.
"""

import functools
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

from inferscale import InferScaleError

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Call:
    """Call this method of the SDK's client (`get`, `blocks.get`); answer with its result, or throw
    its error."""

    method: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


Flow = Generator[Call, Any, T]


def call(method: str, *args: Any, **kwargs: Any) -> Flow[Any]:
    """`result = yield from call("get", memory_id)`. Arguments that are None are not passed."""
    given = {name: value for name, value in kwargs.items() if value is not None}
    return (yield Call(method, args, given))


def run(flow: Flow[T], client: Any) -> T:
    """Drive a flow against a blocking client."""
    resume: Callable[[], Call] = functools.partial(next, flow)
    while True:
        try:
            step = resume()
        except StopIteration as stop:
            result: T = stop.value
            return result
        try:
            answer = attrgetter(step.method)(client)(*step.args, **step.kwargs)
            resume = functools.partial(flow.send, answer)
        except InferScaleError as error:
            resume = functools.partial(flow.throw, error)


async def run_async(flow: Flow[T], client: Any) -> T:
    """Drive a flow against an awaiting client."""
    resume: Callable[[], Call] = functools.partial(next, flow)
    while True:
        try:
            step = resume()
        except StopIteration as stop:
            result: T = stop.value
            return result
        try:
            answer = await attrgetter(step.method)(client)(*step.args, **step.kwargs)
            resume = functools.partial(flow.send, answer)
        except InferScaleError as error:
            resume = functools.partial(flow.throw, error)


def blocking(flow: Callable[Concatenate[Any, P], Flow[T]]) -> Callable[Concatenate[Any, P], T]:
    """The flow as a method of an object whose `_client` is an `inferscale.Memory`."""

    @functools.wraps(flow)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(flow(self, *args, **kwargs), self._client)

    _sign(method, flow)
    return method


def awaiting(
    flow: Callable[Concatenate[Any, P], Flow[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The flow as a coroutine method of an object whose `_client` is an `AsyncMemory`."""

    @functools.wraps(flow)
    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run_async(flow(self, *args, **kwargs), self._client)

    _sign(method, flow)
    return method


def _sign(method: Any, flow: Any) -> None:
    """Shows the result instead of the generator, in `help` and to frameworks that inspect."""
    signature = inspect.signature(flow)
    result = get_args(signature.return_annotation)[-1]
    method.__signature__ = signature.replace(return_annotation=result)
    method.__annotations__ = {**flow.__annotations__, "return": result}
    del method.__wrapped__
