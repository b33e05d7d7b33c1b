"""`InferScaleRetriever`: memories as Haystack's documents, for prompts.

Owns how a memory is a document. What it gives is text that the model reads token by token: nothing
is injected, which is what `InferScaleChatGenerator` is for.
"""

from typing import Any

from haystack import Document, component, default_to_dict
from haystack.utils import Secret

from inferscale import InvalidArgumentError, SearchResult
from inferscale_haystack._connection import Connection
from inferscale_shared.turn import IDS


@component
class InferScaleRetriever:
    """Memories that fit a query, best first.

    Args:
        user_id, agent_id, run_id, app_id: whose, unless the run says.
        top_k: at most so many.
        filters: on the memories' metadata, in the sidecar's language (docs/http-api.md).
        threshold: least score, between 0 and 1.
        api_key: the sidecar's; default INFERSCALE_API_KEY.
        api_base_url: the sidecar's; default INFERSCALE_BASE_URL.

    A document's meta holds what else a memory has: ids, times, version, and its own `metadata`.
    """

    def __init__(
        self,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        run_id: str | None = None,
        app_id: str | None = None,
        top_k: int = 10,
        filters: dict[str, Any] | None = None,
        threshold: float | None = None,
        api_key: Secret = Secret.from_env_var("INFERSCALE_API_KEY", strict=False),  # noqa: B008
        api_base_url: str | None = None,
    ) -> None:
        self.ids = dict(zip(IDS, (user_id, agent_id, run_id, app_id), strict=True))
        self.top_k = top_k
        self.filters = filters
        self.threshold = threshold
        self.api_key = api_key
        self.api_base_url = api_base_url
        self._connection = Connection(api_key, api_base_url)

    @component.output_types(documents=list[Document])
    def run(
        self,
        query: str,
        user_id: str | None = None,
        top_k: int | None = None,
        filters: dict[str, Any] | None = None,
    ) -> dict[str, list[Document]]:
        """The memories.

        Args:
            query: what they should be about.
            user_id, top_k, filters: instead of the component's.

        Raises:
            InvalidArgumentError: neither the run nor the component says whose.
        """
        options = self._options(user_id, top_k, filters)
        return _documents(self._connection.blocking().call("search", query, **options))

    @component.output_types(documents=list[Document])
    async def run_async(
        self,
        query: str,
        user_id: str | None = None,
        top_k: int | None = None,
        filters: dict[str, Any] | None = None,
    ) -> dict[str, list[Document]]:
        """As `run`, awaiting."""
        options = self._options(user_id, top_k, filters)
        return _documents(await self._connection.awaiting().acall("search", query, **options))

    def close(self) -> None:
        """Releases the blocking client."""
        self._connection.close()

    async def close_async(self) -> None:
        """Releases the awaiting client."""
        await self._connection.close_async()

    def to_dict(self) -> dict[str, Any]:
        """The component without its connections."""
        data: dict[str, Any] = default_to_dict(
            self,
            **self.ids,
            top_k=self.top_k,
            filters=self.filters,
            threshold=self.threshold,
            api_key=self.api_key,
            api_base_url=self.api_base_url,
        )
        return data

    def _options(
        self, user_id: str | None, top_k: int | None, filters: dict[str, Any] | None
    ) -> dict[str, Any]:
        given = self.ids if user_id is None else {**self.ids, "user_id": user_id}
        ids = {name: value for name, value in given.items() if value is not None}
        if not ids:
            raise InvalidArgumentError(
                f"whose memory? Give one of {', '.join(IDS)} to the component, or user_id to run."
            )
        options = {
            "limit": self.top_k if top_k is None else top_k,
            "filters": self.filters if filters is None else filters,
            "threshold": self.threshold,
        }
        return {**ids, **{name: value for name, value in options.items() if value is not None}}


def _documents(found: SearchResult) -> dict[str, list[Document]]:
    documents = [
        Document(
            id=hit.id,
            content=hit.memory,
            score=hit.score,
            meta=hit.model_dump(mode="json", exclude={"id", "memory", "score"}),
        )
        for hit in found.results
    ]
    return {"documents": documents}
