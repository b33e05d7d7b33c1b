"""What the methods of `memory.blocks` return: typed, immutable, readable like dictionaries."""

from inferscale._results import MappingModel
from inferscale.protocol import blocks as wire
from inferscale.protocol.values import HandleBlock


class Block(MappingModel, wire.Block):
    """A pinned block: its text is `value`, what it is attached to `scopes`."""


class BlockList(MappingModel):
    """Blocks; oldest first from `list`, in the order in which they are shown from `shown`."""

    results: list[Block]
    total: int
    next_cursor: str | None = None


class BlockHistoryRecord(MappingModel, wire.BlockHistoryEntry):
    """One change of a block; without texts once it was deleted."""


class PinnedBlock(MappingModel, HandleBlock):
    """A block in a handle, in the version in which it is shown there."""
