"""A collection on a Qdrant server, page by page over HTTP. `QDRANT_API_KEY` is sent along."""

import os
from collections.abc import Iterator
from typing import Any

import httpx

from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.foreign.points import Point

PAGE = 500
_TIMEOUT_S = 60.0


class QdrantServerPoints:
    """Points of one collection.

    Args:
        transport: replaces the network in tests.
    """

    def __init__(
        self, url: str, collection: str, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._url = f"{url.rstrip('/')}/collections/{collection}/points/scroll"
        self._transport = transport

    def __iter__(self) -> Iterator[Point]:
        key = os.environ.get("QDRANT_API_KEY")
        headers = {"api-key": key} if key else {}
        offset = None
        with httpx.Client(
            headers=headers, timeout=_TIMEOUT_S, transport=self._transport, trust_env=False
        ) as http:
            while True:
                page = self._page(http, offset)
                for point in page["points"]:
                    yield Point(str(point["id"]), point.get("payload") or {})
                if (offset := page.get("next_page_offset")) is None:
                    return

    def _page(self, http: httpx.Client, offset: Any) -> dict[str, Any]:
        body = {"limit": PAGE, "offset": offset, "with_payload": True, "with_vector": False}
        try:
            answer = http.post(self._url, json=body)
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()["result"]
        except (httpx.HTTPError, ValueError, LookupError) as error:
            raise ConfigError(
                f"no points from {self._url}: {error}; check the URL, --collection and "
                "QDRANT_API_KEY"
            ) from error
        return found
