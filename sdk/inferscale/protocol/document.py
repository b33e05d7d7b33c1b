"""Requests and responses of the document store (`/v1/store/…`): JSON objects under a namespace.

Owns names and limits, which follow LangGraph's store: a namespace is a list of labels, a filter
compares top-level fields, a time to live counts from the last access. Times are seconds.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from inferscale.protocol.memory import Text, Wire
from inferscale.protocol.values import Id as Id

MAX_LABELS = 64
MAX_NAMESPACE_CHARS = 1_024
MAX_KEY_CHARS = 512
MAX_VALUE_BYTES = 2**20
MAX_PATHS = 64
MAX_ITEMS = 10_000
MAX_OPERATIONS = 1_000
MAX_TTL_S = 100 * 365 * 86_400.0


def _storable(what: str, text: str) -> str:
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise ValueError(f"{what} {text!a} contains NUL or a lone surrogate; send valid Unicode")
    return text


def _check_label(label: str) -> str:
    if not label or "." in label:
        raise ValueError(f"namespace label {label!a} must not be empty nor contain a period")
    return _storable("namespace label", label)


def _check_namespace(labels: list[str]) -> list[str]:
    length = sum(len(label) + 1 for label in labels)
    if length > MAX_NAMESPACE_CHARS:
        raise ValueError(
            f"the namespace has {length} characters, the limit is {MAX_NAMESPACE_CHARS}"
        )
    return labels


Label = Annotated[str, AfterValidator(_check_label)]
Prefix = Annotated[list[Label], Field(max_length=MAX_LABELS), AfterValidator(_check_namespace)]
"""Labels of a namespace, from the root; empty for all namespaces."""
Namespace = Annotated[Prefix, Field(min_length=1)]
Key = Annotated[
    str, Field(max_length=MAX_KEY_CHARS), AfterValidator(lambda key: _storable("key", key))
]
Limit = Annotated[int, Field(ge=0, le=MAX_ITEMS)]
Offset = Annotated[int, Field(ge=0, le=2**53)]


class Owned(Wire):
    """Whose documents: one user's, or with None those that the tenant's users share. Exact."""

    user_id: Id | None = None


class GetFields(Wire):
    """One document."""

    namespace: Namespace
    key: Key
    refresh_ttl: bool = True
    """True: reading starts its time to live again."""


class PutFields(Wire):
    """Creates a document, or replaces it as a whole."""

    namespace: Namespace
    key: Key
    value: dict[str, Any]
    index: Annotated[list[str], Field(max_length=MAX_PATHS)] | Literal[False] | None = None
    """Paths of what is searched by meaning, such as `text` or `parts[*].text`; `$` is all of it.
    Left out or false: the document is not found by meaning."""
    ttl_s: Annotated[float, Field(gt=0, le=MAX_TTL_S)] | None = None
    """Seconds from the last access until it is gone. None: it stays."""


class DeleteFields(Wire):
    """Removes a document; nothing happens if there is none."""

    namespace: Namespace
    key: Key


class SearchFields(Wire):
    """Documents below a namespace; the last written first, or by meaning if there is a query."""

    namespace_prefix: Prefix = Field(default_factory=list)
    filter: dict[str, Any] | None = None
    query: Text | None = None
    limit: Limit = 10
    offset: Offset = 0
    refresh_ttl: bool = True


class MatchCondition(Wire):
    """What a namespace begins or ends with. The label `*` stands for any one label."""

    match_type: Literal["prefix", "suffix"]
    path: Prefix


class NamespacesFields(Wire):
    """Namespaces that hold documents, sorted; all conditions must hold."""

    match_conditions: list[MatchCondition] = Field(default_factory=list)
    max_depth: Annotated[int, Field(ge=1)] | None = None
    """Longer namespaces are cut to so many labels; each result is given once."""
    limit: Limit = 100
    offset: Offset = 0


class Get(GetFields):
    op: Literal["get"] = "get"


class Put(PutFields):
    op: Literal["put"] = "put"


class Delete(DeleteFields):
    op: Literal["delete"] = "delete"


class Search(SearchFields):
    op: Literal["search"] = "search"


class Namespaces(NamespacesFields):
    op: Literal["namespaces"] = "namespaces"


Operation = Annotated[Get | Put | Delete | Search | Namespaces, Field(discriminator="op")]


class GetRequest(GetFields, Owned):
    """Query of `GET /v1/store/items`, with the namespace's labels joined by periods."""


class PutRequest(PutFields, Owned):
    """`PUT /v1/store/items`."""


class SearchRequest(SearchFields, Owned):
    """`POST /v1/store/items/search`."""


class NamespacesRequest(NamespacesFields, Owned):
    """`POST /v1/store/namespaces`."""


class BatchRequest(Owned):
    """`POST /v1/store/batch`: reads see what was there before the writes; of several writes of one
    key the last counts, and all are done or none."""

    operations: Annotated[list[Operation], Field(max_length=MAX_OPERATIONS)]


class Item(BaseModel):
    """A document."""

    namespace: list[str]
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime


class FoundItem(Item):
    """A document that a search found; `score` is the cosine, None if it was not compared."""

    score: float | None = None


class ItemList(BaseModel):
    items: list[FoundItem]


class NamespaceList(BaseModel):
    namespaces: list[list[str]]


class BatchResponse(BaseModel):
    """One result for each operation: an item or None, items, namespaces, or None for a write."""

    results: list[Item | list[FoundItem] | list[list[str]] | None]


class RemovedItems(BaseModel):
    deleted: int
