"""One memory client for both worlds: a framework calls its hooks blocking or awaiting, as it likes.

Owns the choice of client. Invariant: blocking HTTP never runs on the event loop.
"""

import asyncio
from typing import Any, Self

from inferscale import AsyncMemory, InvalidArgumentError, Memory


class Clients:
    """A blocking client, an awaiting one, or both; methods are called by their name.

    Args:
        memory: used by blocking calls, and in a thread by awaiting ones if there is no
            `async_memory`. Default: one from the environment, unless `async_memory` is given.
        async_memory: used by awaiting calls; lives on one event loop.

    Raises:
        InvalidArgumentError: one of them is something else.
    """

    def __init__(self, memory: Memory | None, async_memory: AsyncMemory | None) -> None:
        _need("memory", memory, Memory)
        _need("async_memory", async_memory, AsyncMemory)
        self._memory = Memory() if memory is None and async_memory is None else memory
        self._async_memory = async_memory

    @classmethod
    def of(cls, client: Memory | AsyncMemory | None) -> Self:
        """One client of either kind; None: a blocking one from the environment.

        Raises:
            InvalidArgumentError: it is something else.
        """
        if isinstance(client, AsyncMemory):
            return cls(None, client)
        return cls(client, None)

    @property
    def blocking(self) -> Memory:
        """The blocking client.

        Raises:
            InvalidArgumentError: there is only an awaiting one.
        """
        if self._memory is None:
            raise InvalidArgumentError(
                "a blocking call, but only async_memory was given; pass memory=Memory() too, "
                "or call the awaiting methods."
            )
        return self._memory

    @property
    def awaiting(self) -> AsyncMemory | None:
        """The awaiting client, if there is one."""
        return self._async_memory

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        """Call a method of the blocking client.

        Raises:
            InvalidArgumentError: there is only an awaiting one.
        """
        return getattr(self.blocking, method)(*args, **options)

    async def acall(self, method: str, *args: Any, **options: Any) -> Any:
        """Call it on the awaiting client or, without one, in a thread on the blocking one."""
        if self._async_memory is not None:
            return await getattr(self._async_memory, method)(*args, **options)
        return await asyncio.to_thread(self.call, method, *args, **options)


def _need(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise InvalidArgumentError(
            f"{name} is a {type(value).__name__}; pass an inferscale.{kind.__name__}."
        )
