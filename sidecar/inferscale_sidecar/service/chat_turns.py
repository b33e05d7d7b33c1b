"""Prepares the next turn of a conversation when an answer ends.

What stands behind injected memory is not exact, and neither is the KV of an answer that was made
from it. So the history with the answer, without memory, is prefilled in the background, up to
where the next turn's memory will begin: full blocks stay in vLLM's own prefix cache, and the tail
behind the last of them goes to the bank. The next turn then computes its memory's suffix and its
question, and nothing else.

Owns the background work. Invariants: no answer waits for it, and what fails or does not fit costs
only time later.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from inferscale_sidecar.build.prefix import PrefixWarmer
from inferscale_sidecar.build.prefix_finder import PrefixFinder
from inferscale_sidecar.build.send import BUILD_PRIORITY
from inferscale_sidecar.core import PinnedBlock, Tail, Tenant
from inferscale_sidecar.service.chat_answers import final_text, streamed_text
from inferscale_sidecar.service.chat_messages import Messages

log = logging.getLogger(__name__)

MAX_RUNNING = 64
MAX_STREAM_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Turn:
    """What a client asked, without memory: all that the next prompt begins with but the answer.

    Attributes:
        messages: the client's own.
        options: fields that change what the chat template writes.
        pinned: blocks that were shown, and will be again.
        cache_salt: whose prefix cache.
        tail: whose conversation, and how long the bank keeps it.
    """

    messages: Messages
    options: Mapping[str, Any]
    pinned: tuple[PinnedBlock, ...]
    cache_salt: str
    tail: Tail


class NextTurns:
    """See the module.

    Args:
        finder: renders what the next prompt will begin with.
        warmer: prefills it.
    """

    def __init__(self, finder: PrefixFinder, warmer: PrefixWarmer) -> None:
        self._finder, self._warmer = finder, warmer
        self._running: set[asyncio.Task[None]] = set()

    def answered(self, tenant: Tenant, turn: Turn, answer: bytes, *, is_stream: bool) -> None:
        """The engine has answered. Returns at once.

        Args:
            answer: its body, whole.
        """
        if len(self._running) >= MAX_RUNNING:
            return
        task = asyncio.create_task(self._prepare(tenant, turn, answer, is_stream), name="next-turn")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def wait_idle(self) -> None:
        """Returns once nothing is running."""
        while self._running:
            await asyncio.wait(self._running)

    async def stop(self) -> None:
        """Aborts what is running."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _prepare(self, tenant: Tenant, turn: Turn, answer: bytes, is_stream: bool) -> None:
        try:
            said = streamed_text(answer) if is_stream else final_text(json.loads(answer))
            if said is None:
                return
            history = [*turn.messages, {"role": "assistant", "content": said}]
            asked = [*history, {"role": "user", "content": ""}]
            prefix = await self._finder.for_chat(asked, turn.options, turn.pinned, position="last")
            if prefix:
                await self._warmer.ensure(
                    tenant,
                    prefix,
                    cache_salt=turn.cache_salt,
                    pinned=turn.pinned,
                    tail=turn.tail,
                    priority=BUILD_PRIORITY,
                )
        except Exception:  # the answer is out; whatever it was, it is in the log
            log.exception("the next turn of a conversation was not prepared")
