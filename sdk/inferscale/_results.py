"""What the client returns: typed, immutable, and readable like Mem0's dictionaries.

Fields come from `inferscale.protocol`. Attributes are typed (`record.created_at` is a datetime);
items are what Mem0 has there (`record["created_at"]` is an ISO 8601 string). Owns no I/O.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, computed_field

from inferscale.protocol import chat as chat_wire
from inferscale.protocol import document as document_wire
from inferscale.protocol import entities as entity_wire
from inferscale.protocol import memory as wire


class MappingModel(BaseModel):
    """A model that can also be read with `[]`, `in`, `.get`, `.keys` and `dict()`, as Mem0's."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def __getitem__(self, key: str) -> Any:
        if key not in self:
            raise KeyError(key)
        value = getattr(self, key)
        return value.isoformat() if isinstance(value, datetime) else value

    def __contains__(self, key: object) -> bool:
        return key in type(self).model_fields or key in type(self).model_computed_fields

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]  # a dict yields its keys
        yield from type(self).model_fields
        yield from type(self).model_computed_fields

    def get(self, key: str, default: Any = None) -> Any:
        """The item, or `default` if there is no such key."""
        return self[key] if key in self else default  # noqa: SIM401  (that would be this method)

    def keys(self) -> list[str]:
        """Names of all items."""
        return list(self)

    def values(self) -> list[Any]:
        """All values, in the order of `keys()`."""
        return [self[key] for key in self]

    def items(self) -> list[tuple[str, Any]]:
        """All (key, value) pairs."""
        return [(key, self[key]) for key in self]


class MemoryRecord(MappingModel, wire.Memory):
    """One memory: its text is `memory`, the state of its KV `kv_state`."""


class SearchHit(MemoryRecord, wire.ScoredMemory):
    """A memory found by `search`. `score` is at most 1, higher is closer."""


class AddedMemory(MappingModel, wire.AddedMemory):
    """What `add` did with one message or fact. NOOP: it was known already, under `id`."""


class RecalledMemory(MappingModel, wire.HandleItem):
    """A memory in a handle, with its score for the query."""


class HistoryRecord(MappingModel, wire.HistoryEntry):
    """One change of a memory."""

    @computed_field  # type: ignore[prop-decorator]  # pydantic's documented order
    @property
    def is_deleted(self) -> bool:
        """True for the entry of the deletion, also by time."""
        return self.event in ("DELETE", "EXPIRE")


class Extraction(MappingModel, wire.Extraction):
    """How an extraction stands: `state`, how many facts were kept and dropped, and the error."""


class AddResult(MappingModel):
    """Result of `add`, one entry for each message or fact; `extraction` if facts were asked for."""

    results: list[AddedMemory]
    extraction: Extraction | None = None


class SearchResult(MappingModel):
    """Result of `search`, best first."""

    results: list[SearchHit]


class ListResult(MappingModel):
    """Result of `get_all`, newest first. `total` counts the whole scope, not the page."""

    results: list[MemoryRecord]
    total: int
    next_cursor: str | None = None


class EntityRecord(MappingModel, entity_wire.Entity):
    """A user, an agent, a run or an app with memories."""


class EntityList(MappingModel):
    """Result of `entities`, oldest first. `total` counts all, not the page."""

    results: list[EntityRecord]
    total: int
    next_cursor: str | None = None


class UpdateResult(MemoryRecord):
    """The memory as it is after `update`."""

    message: str = "Memory updated successfully!"


class DeleteResult(MappingModel, wire.DeleteResponse):
    """What `delete` or `delete_all` removed, by kind, and encoded items dropped from the bank."""

    message: str = "Memory deleted successfully!"


class DeleteWhereResult(DeleteResult, wire.DeleteWhereResponse):
    """What `delete_where` matched (`matched`, `ids`) and, unless `dry_run`, removed."""

    message: str = "Memories deleted successfully!"


class Document(MappingModel, document_wire.Item):
    """A document of the store: its JSON object is `value`."""


class FoundDocument(Document, document_wire.FoundItem):
    """A document that `search` found; `score` is None if it was not compared by meaning."""


class BuildStatus(MappingModel, wire.BuildStatus):
    """How far the KV is behind the text. Text is served in any case."""

    @property
    def is_done(self) -> bool:
        """True if nothing waits to be built. Items that failed are served as text."""
        return self.queued == 0 and self.building == 0


class MemoryReport(chat_wire.MemoryReport):
    """What happened to the memory of one chat request: injected, prefilled as text, and why."""

    # The wire type forbids unknown fields; an older SDK must still read a newer sidecar's report.
    model_config = ConfigDict(frozen=True, extra="ignore")
