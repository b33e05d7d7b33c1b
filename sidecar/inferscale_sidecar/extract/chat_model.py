"""Where an extractor's LLM is: our own engine, or any endpoint that speaks OpenAI's chat API.

Owns transport and its failures, nothing of what is asked.
"""

import json
from collections.abc import Mapping
from typing import Any, Protocol

import httpx

from inferscale_sidecar.engine.base import Engine, EngineRequest
from inferscale_sidecar.errors import SidecarError
from inferscale_sidecar.extract.base import ExtractionFailed

PRIORITY = 5
"""Behind chats (0), before builds (10)."""

_MAX_QUOTED_CHARS = 300


class ChatModel(Protocol):
    """One chat completion at a time, as text."""

    async def complete(self, body: Mapping[str, Any], *, salt: str = "") -> str:
        """The text of the answer to a chat request without `model`. Raises ExtractionFailed."""

    async def close(self) -> None:
        """Give connections back."""


class EngineChatModel:
    """The served model itself, through our own engine. See `ChatModel`.

    Args:
        engine: shared with everybody else, and not closed here.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def complete(self, body: Mapping[str, Any], *, salt: str = "") -> str:
        try:
            sent = {"model": self._engine.model, "priority": PRIORITY, **body}
            if salt:
                sent["cache_salt"] = salt
            answer = await self._engine.open(
                EngineRequest(
                    "POST",
                    "/v1/chat/completions",
                    headers={"content-type": "application/json"},
                    content=json.dumps(sent).encode(),
                )
            )
            try:
                content = await answer.read()
            finally:
                await answer.aclose()
        except SidecarError as error:
            raise ExtractionFailed(
                f"the engine that extracts facts did not answer: {error.message}",
                code="extraction_unavailable",
            ) from error
        return _text_in(answer.status, content)

    async def close(self) -> None: ...


class OpenAiChatModel:
    """An OpenAI-compatible endpoint. See `ChatModel`.

    Args:
        url: its base, e.g. `https://api.example.com/v1`.
        model: name that it knows.
        api_key: sent as a bearer token, if there is one.
        timeout_s: for the whole answer.
        transport: replaces the network in tests.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 120,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url, self._model = url.rstrip("/"), model
        self._http = httpx.AsyncClient(
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            timeout=timeout_s,
            transport=transport,
        )

    async def complete(self, body: Mapping[str, Any], *, salt: str = "") -> str:
        try:
            answer = await self._http.post(
                f"{self._url}/chat/completions", json={"model": self._model, **body}
            )
        except httpx.HTTPError as error:
            raise ExtractionFailed(
                f"no answer from the extraction endpoint {self._url} "
                f"({type(error).__name__}: {error}); check extract.url and that it is up",
                code="extraction_unavailable",
            ) from error
        return _text_in(answer.status_code, answer.content)

    async def close(self) -> None:
        await self._http.aclose()


def _text_in(status: int, content: bytes) -> str:
    quoted = content[:_MAX_QUOTED_CHARS].decode(errors="replace")
    if status != 200:
        raise ExtractionFailed(
            f"the extraction model answered {status}: {quoted}", code="extraction_unavailable"
        )
    try:
        text = json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError) as error:
        raise ExtractionFailed(
            f"the extraction model's answer is no chat completion: {quoted}"
        ) from error
    if not isinstance(text, str):
        raise ExtractionFailed("the extraction model's answer has no text in it")
    return text
