"""`MemoryHandle`: a frozen composition of memories that a request can name instead of carrying.

Owns no I/O and never changes: the same handle always stands for the same bytes.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inferscale._block_results import PinnedBlock
from inferscale._results import RecalledMemory
from inferscale.protocol.memory import SCOPE_IDS, HandleResponse


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class MemoryHandle:
    """What `recall` returns. Attach it to a request, or render it with `str(handle)`.

    Attributes:
        id: names it on the wire; a capability, bound to the tenant of the API key.
        items: the memories in the order in which the model sees them, best last.
        blocks: the pinned blocks, which stand before them.
        text: exactly the block that the model sees.
        created_at, expires_at: UTC. An expired handle is a NotFoundError; recall again.
    """

    id: str
    items: tuple[RecalledMemory, ...]
    text: str
    created_at: datetime
    expires_at: datetime
    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    blocks: tuple[PinnedBlock, ...] = ()
    app_id: str | None = None

    def as_field(self) -> dict[str, Any]:
        """The `memory` field of a chat request: `extra_body={"memory": handle.as_field()}`."""
        return {"handle": self.id}

    def __str__(self) -> str:
        return self.text

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemoryHandle) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        # Reprs get logged: no text (someone's memory), and not the whole id (a capability).
        return (
            f"MemoryHandle(id='{self.id[:9]}…', items={len(self)}, "
            f"expires_at='{self.expires_at.isoformat()}')"
        )


def create_handle(body: Any) -> MemoryHandle:
    """A handle from the body of `POST /v1/recall` or `GET /v1/handles/{id}`.

    Raises:
        pydantic.ValidationError: the body has another shape.
    """
    wire = HandleResponse.model_validate(body)
    return MemoryHandle(
        id=wire.handle,
        items=tuple(RecalledMemory.model_validate(item.model_dump()) for item in wire.items),
        text=wire.text,
        created_at=wire.created_at,
        expires_at=wire.expires_at,
        **{name: getattr(wire, name) for name in SCOPE_IDS},
        blocks=tuple(PinnedBlock.model_validate(block.model_dump()) for block in wire.blocks),
    )
