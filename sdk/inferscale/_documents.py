"""`Memory.documents`: JSON objects under a namespace and a key, beside the memories.

Owns the signatures of both clients; `_document_operations` makes the requests. Invariant: both have
the same methods with the same parameters (a test compares them).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from inferscale import _document_operations as operations
from inferscale._document_operations import Namespace
from inferscale._results import Document, FoundDocument
from inferscale._transport import AsyncTransport, SyncTransport


class Documents:
    """Documents of one user, or those that the tenant's users share. Get it as `memory.documents`.

    Args:
        transport: of the client.
        user_id: whose; None for the shared ones.
    """

    def __init__(self, transport: SyncTransport, user_id: str | None = None) -> None:
        self._transport, self._user_id = transport, user_id

    def of_user(self, user_id: str | None) -> Self:
        """The documents of this user alone; None for the shared ones."""
        return type(self)(self._transport, user_id)

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        index: Sequence[str] | Literal[False] | None = None,
        ttl_s: float | None = None,
    ) -> None:
        """Create a document, or replace it as a whole.

        Args:
            namespace: labels from the root, without periods.
            key: names it in its namespace.
            value: a JSON object.
            index: paths of what `search` finds by meaning, such as `"text"` or `"parts[*].text"`;
                `"$"` is all of it. None: it is found by filter only.
            ttl_s: seconds from the last access until it is gone; None: it stays.
        """
        self._transport.call(
            operations.put(self._user_id, namespace, key, value, index=index, ttl_s=ttl_s)
        )

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool = True) -> Document | None:
        """One document, or None. With `refresh_ttl`, reading starts its time to live again."""
        return self._transport.call(
            operations.get(self._user_id, namespace, key, refresh_ttl=refresh_ttl)
        )

    def delete(self, namespace: Namespace, key: str) -> None:
        """Remove a document, if there is one."""
        self._transport.call(operations.delete(self._user_id, namespace, key))

    def search(
        self,
        namespace_prefix: Namespace = (),
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool = True,
    ) -> list[FoundDocument]:
        """Documents below a namespace: the last written first, or the closest to `query` first.

        Args:
            filter: `{"field": value}` or `{"field": {"$gte": value}}`; all must hold. Operators:
                `$eq $ne $gt $gte $lt $lte`.
        """
        return self._transport.call(
            operations.search(
                self._user_id,
                namespace_prefix,
                query=query,
                filter=filter,
                limit=limit,
                offset=offset,
                refresh_ttl=refresh_ttl,
            )
        )

    def list_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Namespaces that hold documents, sorted. `*` in `prefix` and `suffix` is any one label.

        Args:
            max_depth: cut longer ones to so many labels.
        """
        return self._transport.call(
            operations.list_namespaces(
                self._user_id,
                prefix=prefix,
                suffix=suffix,
                max_depth=max_depth,
                limit=limit,
                offset=offset,
            )
        )

    def batch(self, batch: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Many operations in one request, as `POST /v1/store/batch` takes them; their results.

        Reads see what was there before the writes; all writes are done, or none.
        """
        return self._transport.call(operations.batch(batch, self._user_id))

    def delete_all(self, user_id: str) -> int:
        """Remove all documents of a user; how many there were."""
        return self._transport.call(operations.delete_all(user_id))


class AsyncDocuments:
    """`Documents` for asyncio: same arguments, every method but `of_user` awaited."""

    def __init__(self, transport: AsyncTransport, user_id: str | None = None) -> None:
        self._transport, self._user_id = transport, user_id

    def of_user(self, user_id: str | None) -> Self:
        """As `Documents.of_user`."""
        return type(self)(self._transport, user_id)

    async def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        *,
        index: Sequence[str] | Literal[False] | None = None,
        ttl_s: float | None = None,
    ) -> None:
        """As `Documents.put`."""
        await self._transport.call(
            operations.put(self._user_id, namespace, key, value, index=index, ttl_s=ttl_s)
        )

    async def get(
        self, namespace: Namespace, key: str, *, refresh_ttl: bool = True
    ) -> Document | None:
        """As `Documents.get`."""
        return await self._transport.call(
            operations.get(self._user_id, namespace, key, refresh_ttl=refresh_ttl)
        )

    async def delete(self, namespace: Namespace, key: str) -> None:
        """As `Documents.delete`."""
        await self._transport.call(operations.delete(self._user_id, namespace, key))

    async def search(
        self,
        namespace_prefix: Namespace = (),
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool = True,
    ) -> list[FoundDocument]:
        """As `Documents.search`."""
        return await self._transport.call(
            operations.search(
                self._user_id,
                namespace_prefix,
                query=query,
                filter=filter,
                limit=limit,
                offset=offset,
                refresh_ttl=refresh_ttl,
            )
        )

    async def list_namespaces(
        self,
        *,
        prefix: Namespace | None = None,
        suffix: Namespace | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """As `Documents.list_namespaces`."""
        return await self._transport.call(
            operations.list_namespaces(
                self._user_id,
                prefix=prefix,
                suffix=suffix,
                max_depth=max_depth,
                limit=limit,
                offset=offset,
            )
        )

    async def batch(self, batch: Sequence[Mapping[str, Any]]) -> list[Any]:
        """As `Documents.batch`."""
        return await self._transport.call(operations.batch(batch, self._user_id))

    async def delete_all(self, user_id: str) -> int:
        """As `Documents.delete_all`."""
        return await self._transport.call(operations.delete_all(user_id))
