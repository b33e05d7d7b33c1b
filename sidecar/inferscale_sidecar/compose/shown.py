"""Names of the texts that a prompt shows: by these the engine forgets them.

Owns what a text is called there: the id of its memory or block, whatever the version. A deletion
takes all versions, and ids are never used again.
"""

from collections.abc import Sequence

from inferscale.protocol.engine import Shown
from inferscale_sidecar.compose.head import Openings
from inferscale_sidecar.core import CompositionItem, PinnedBlock


def shown_blocks(blocks: Sequence[PinnedBlock], openings: Openings) -> tuple[Shown, ...]:
    """Pinned blocks in a prompt."""
    texts = tuple((block.block_id, None) for block in blocks)
    return (Shown(openings.pinned, texts),) if texts else ()


def shown_items(
    items: Sequence[CompositionItem], keys: Sequence[str | None], openings: Openings
) -> tuple[Shown, ...]:
    """The memory list in a prompt.

    Args:
        items: in prompt order.
        keys: of their KV, as far as there is any: tells where they stand.
        openings: of the model's prompts.
    """
    texts = tuple((item.memory_id, key) for item, key in zip(items, keys, strict=True))
    return (Shown(openings.items, texts),) if texts else ()
