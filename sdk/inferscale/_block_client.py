"""`memory.blocks` of the blocking client: signatures and documentation of both."""

from collections.abc import Mapping, Sequence
from typing import Any

from inferscale import _block_operations, _block_tools
from inferscale._block_results import Block, BlockHistoryRecord, BlockList
from inferscale._results import DeleteResult
from inferscale._transport import SyncTransport


class Blocks:
    """Pinned blocks: text that is part of every recall, handle and chat with memory."""

    def __init__(self, transport: SyncTransport) -> None:
        self._transport = transport

    def create(
        self,
        label: str,
        value: str = "",
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Block:
        """Make a block, attached to the ids; without any it is shown nowhere until `attach`.

        Args:
            label: its name, unique among what is attached to the same ids.
            value: its text.
            user_id, agent_id, run_id, app_id: shown in requests that give all of these.
            description: shown beside the label.
            limit: most characters of the value (default 5,000).
            read_only: True: `update` can change it, `append`, `replace` and tools cannot.
            metadata: any JSON object; not shown.

        Raises:
            ConflictError: the label is taken there.
            TooLargeError: the value is longer than the limit.
        """
        fields = {
            "label": label,
            "value": value,
            "description": description,
            "limit": limit,
            "read_only": read_only,
            "metadata": metadata,
        }
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return self._transport.call(_block_operations.create(fields, scope=scope))

    def get(self, block_id: str) -> Block | None:
        """One block, or None if there is none with this id."""
        return self._transport.call(_block_operations.get(block_id))

    def update(
        self,
        block_id: str,
        *,
        value: str | None = None,
        label: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        if_version: int | None = None,
    ) -> Block:
        """Change what is given; what is None stays. `metadata` replaces, {} removes.

        Args:
            if_version: change nothing unless the block still has this `version`.

        Raises:
            ConflictError: it was changed meanwhile, or the label is taken.
            NotFoundError: there is no such block.
            TooLargeError: the value is longer than the limit.
        """
        changes = {
            "value": value,
            "label": label,
            "description": description,
            "limit": limit,
            "read_only": read_only,
            "metadata": metadata,
        }
        operation = _block_operations.update(block_id, changes, if_version=if_version)
        return self._transport.call(operation)

    def append(self, block_id: str, text: str, *, if_version: int | None = None) -> Block:
        """Add a line at the end, as an agent does: a read-only block is a PermissionDeniedError."""
        operation = _block_operations.append(block_id, text, if_version=if_version)
        return self._transport.call(operation)

    def replace(self, block_id: str, old: str, new: str, *, if_version: int | None = None) -> Block:
        """Put `new` wherever `old` stands, as an agent does.

        Raises:
            InvalidRequestError: `old` does not stand in the block.
            PermissionDeniedError: the block is read-only.
        """
        operation = _block_operations.replace(block_id, old, new, if_version=if_version)
        return self._transport.call(operation)

    def attach(
        self,
        block_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> Block:
        """Show the block to requests with these ids as well: so it is shared. May be repeated."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return self._transport.call(_block_operations.attach(block_id, scope))

    def detach(
        self,
        block_id: str,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> Block:
        """Show the block to requests with exactly these ids no more, live handles included."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return self._transport.call(_block_operations.detach(block_id, scope))

    def delete(self, block_id: str) -> DeleteResult:
        """Forget a block everywhere. Raises NotFoundError if there is none with this id."""
        return self._transport.call(_block_operations.delete(block_id))

    def history(self, block_id: str) -> Sequence[BlockHistoryRecord]:
        """All versions of a block, its deletion included; [] if there never was such a one."""
        return self._transport.call(_block_operations.history(block_id))

    def shown(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> BlockList:
        """What a request with exactly these ids shows, in that order."""
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return self._transport.call(_block_operations.shown(scope))

    def list(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        label: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> BlockList:
        """Blocks that are attached to these ids, oldest first; without ids, all of the tenant.

        Args:
            label: only those with exactly this label.
            limit, cursor: one page; else all.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        if limit is None and cursor is None:
            return self._transport.run(
                _block_operations.list_all(scope, label, self._transport.policy)
            )
        operation = _block_operations.list_page(scope, label=label, limit=limit, cursor=cursor)
        return self._transport.call(operation)

    def run_tool(
        self,
        call: Any,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
    ) -> dict[str, str]:
        """Carry out a model's call of one of `block_tools`, and make the message that answers it.

        What the model did wrong (an unknown label, over the limit, read-only) is told in that
        message, so that it can try again; everything else is raised.

        Args:
            call: one of `message.tool_calls`, as an object or a dict.
            user_id, agent_id, run_id, app_id: whose blocks, as in `chat`; never from the call.
        """
        scope = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        return self._transport.run(_block_tools.run_tool(call, scope, self._transport.policy))
