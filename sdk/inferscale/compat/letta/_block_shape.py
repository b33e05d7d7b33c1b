"""A pinned block as Letta shows it, what of Letta's a block has not, and how lists are cut.

Owns where tags are: they are kept as `tags` in the metadata, and do not show there.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from inferscale import Block, InvalidArgumentError, NotFoundError
from inferscale.compat.letta.types import ArrayPage, BlockResponse

_TAGS = "tags"
_TEMPLATES = "there are no templates; a block is what it says"
NO_FIELDS = {
    "base_template_id": _TEMPLATES,
    "deployment_id": _TEMPLATES,
    "entity_id": _TEMPLATES,
    "hidden": "every block is shown where it is attached; detach it",
    "is_template": _TEMPLATES,
    "preserve_on_migration": _TEMPLATES,
    "project_id": "the API key alone says whose blocks these are",
    "template_id": _TEMPLATES,
    "template_name": _TEMPLATES,
}
NO_SEARCH = {
    "connected_to_agents_count_eq": "blocks are found by label, text and tags",
    "connected_to_agents_count_gt": "blocks are found by label, text and tags",
    "connected_to_agents_count_lt": "blocks are found by label, text and tags",
    "identifier_keys": "there are no identities; attach blocks to user ids with client.inferscale",
    "identity_id": "there are no identities; attach blocks to user ids with client.inferscale",
    "name": "a block has a label; give that",
    "project_id": "the API key alone says whose blocks these are",
    "templates_only": _TEMPLATES,
}


def with_tags(
    metadata: Mapping[str, Any] | None, tags: Sequence[str] | None, block: Block | None
) -> dict[str, Any] | None:
    """Metadata with tags in it; what is None stays as it is in `block`."""
    known = dict((block.metadata if block else None) or {})
    kept = known.pop(_TAGS, None)
    own = dict(metadata) if metadata is not None else known
    labels = list(tags) if tags is not None else kept
    merged = {**own, **({_TAGS: labels} if labels else {})}
    return merged if merged or block else None


def response(block: Block) -> BlockResponse:
    """A block as Letta's methods return it."""
    own = {name: value for name, value in (block.metadata or {}).items() if name != _TAGS}
    return BlockResponse(
        id=block.id,
        value=block.value,
        label=block.label,
        description=block.description,
        limit=block.limit,
        read_only=block.read_only,
        tags=tags_of(block),
        metadata=own or None,
    )


def tags_of(block: Block) -> list[str] | None:
    """The tags, if what the metadata has under that name are some."""
    tags = (block.metadata or {}).get(_TAGS)
    if isinstance(tags, list) and all(isinstance(tag, str) for tag in tags):
        return list(tags)
    return None


def page(
    found: Iterable[Any],
    after: str | None,
    before: str | None,
    limit: int | None,
    order: str | None,
    order_by: str | None,
) -> ArrayPage[Any]:
    """The part of a list between two ids, as Letta's pages are cut."""
    if order not in (None, "asc", "desc") or order_by not in (None, "created_at"):
        raise InvalidArgumentError("order is 'asc' or 'desc', and order_by is 'created_at'.")
    everything = list(found)[:: -1 if order == "desc" else 1]
    ids = [each.id for each in everything]
    for wanted in (after, before):
        if wanted is not None and wanted not in ids:
            raise NotFoundError(f"there is nothing with the id {wanted!r} to list from.")
    start = 0 if after is None else ids.index(after) + 1
    end = len(ids) if before is None else ids.index(before)
    shown = everything[start:end][:limit]
    return ArrayPage([response(each) if isinstance(each, Block) else each for each in shown])
