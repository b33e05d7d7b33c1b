"""`/v1/store`: decode, call `DocumentService`, encode. Shapes follow LangGraph's server."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BeforeValidator
from starlette.requests import Request

from inferscale.protocol import document as wire
from inferscale_sidecar import core
from inferscale_sidecar.api.auth import current_tenant, writing_tenant
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.service.documents import DocumentService, Found, Result
from inferscale_sidecar.store.document_port import Document

Reader = Annotated[core.Tenant, Depends(current_tenant)]
Writer = Annotated[core.Tenant, Depends(writing_tenant)]


def _labels(given: Any) -> Any:
    """Labels of a namespace in a query: with periods between them, repeated, or both."""
    parts = given if isinstance(given, list) else [given]
    return [label for part in parts for label in str(part).split(".")]


class ItemQuery(wire.Owned):
    """Which item."""

    namespace: Annotated[wire.Namespace, BeforeValidator(_labels)]
    key: wire.Key


class GetQuery(ItemQuery):
    """Query of `GET /v1/store/items`."""

    refresh_ttl: bool = True


class UserQuery(wire.Owned):
    """Query of `DELETE /v1/store`."""

    user_id: wire.Id


def create_documents_router(documents: DocumentService) -> APIRouter:
    """The routes over one service."""
    router = APIRouter(tags=["store"])
    _add_item_routes(router, documents)
    _add_set_routes(router, documents)
    return router


def _add_item_routes(router: APIRouter, documents: DocumentService) -> None:
    @router.put("/v1/store/items", status_code=204)
    async def put(body: wire.PutRequest, tenant: Writer) -> None:
        await documents.batch(tenant, body.user_id, [body])

    @router.get("/v1/store/items")
    async def get(query: Annotated[GetQuery, Query()], tenant: Reader) -> wire.Item:
        operation = wire.Get(
            namespace=query.namespace, key=query.key, refresh_ttl=query.refresh_ttl
        )
        (found,) = await documents.batch(tenant, query.user_id, [operation])
        if not isinstance(found, Document):
            raise NotFound("no such item; it does not exist, was deleted, or has expired")
        return wire.Item(**_fields(found))

    @router.delete("/v1/store/items", status_code=204)
    async def delete(query: Annotated[ItemQuery, Query()], tenant: Writer) -> None:
        operation = wire.Delete(namespace=query.namespace, key=query.key)
        await documents.batch(tenant, query.user_id, [operation])


def _add_set_routes(router: APIRouter, documents: DocumentService) -> None:
    @router.post("/v1/store/items/search")
    async def search(body: wire.SearchRequest, tenant: Reader) -> wire.ItemList:
        (found,) = await documents.batch(tenant, body.user_id, [body])
        return wire.ItemList(items=_to_wire(found))

    @router.post("/v1/store/namespaces")
    async def namespaces(body: wire.NamespacesRequest, tenant: Reader) -> wire.NamespaceList:
        (found,) = await documents.batch(tenant, body.user_id, [body])
        return wire.NamespaceList(namespaces=_to_wire(found))

    @router.post("/v1/store/batch")
    async def batch(body: wire.BatchRequest, request: Request) -> wire.BatchResponse:
        writes = any(isinstance(op, wire.Put | wire.Delete) for op in body.operations)
        tenant = await (writing_tenant if writes else current_tenant)(request)
        results = await documents.batch(tenant, body.user_id, body.operations)
        return wire.BatchResponse(results=[_to_wire(result) for result in results])

    @router.delete("/v1/store")
    async def delete_all(query: Annotated[UserQuery, Query()], tenant: Writer) -> wire.RemovedItems:
        return wire.RemovedItems(deleted=await documents.delete_all(tenant, query.user_id))


def _to_wire(result: Result) -> Any:
    if isinstance(result, Document):
        return wire.Item(**_fields(result))
    if not isinstance(result, list):
        return None
    return [
        wire.FoundItem(**_fields(each.document), score=each.score)
        if isinstance(each, Found)
        else list(each)
        for each in result
    ]


def _fields(document: Document) -> dict[str, Any]:
    names = ("key", "value", "created_at", "updated_at")
    return {name: getattr(document, name) for name in names} | {
        "namespace": list(document.namespace)
    }
