"""Server-sent events → chunks of a chat answer. No I/O: bytes in, objects out.

Lines end at LF or CRLF only. Splitting as `str.splitlines` does would tear JSON apart at U+2028 and
U+0085, which engines write unescaped. Invariant: how the bytes are cut up makes no difference.
"""

import json

from pydantic import ValidationError

from inferscale._chat import ChatCompletionChunk
from inferscale._validate import explain
from inferscale.errors import APIResponseError, StreamError


class EventDecoder:
    """The data of each event, as it is completed by a blank line."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """Data of the events that `piece` completes."""
        self._buffer += piece
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        events = (self._take_line(line.removesuffix(b"\r")) for line in lines)
        return [event for event in events if event is not None]

    def _take_line(self, line: bytes) -> bytes | None:
        if line.startswith(b"data:"):
            self._data.append(line.removeprefix(b"data:").removeprefix(b" "))
        elif not line and self._data:
            event, self._data = b"\n".join(self._data), []
            return event
        return None


class ChunkReader:
    """Chunks of one streamed answer; knows whether the stream ended as it should."""

    def __init__(self, request_id: str | None) -> None:
        self.request_id = request_id
        self.is_done = False
        self._decoder = EventDecoder()

    def feed(self, piece: bytes) -> list[ChatCompletionChunk]:
        """Chunks that `piece` completes.

        Raises:
            StreamError: the server reported an error in the stream.
            APIResponseError: an event is not a chunk.
        """
        events = self._decoder.feed(piece)
        return [chunk for chunk in map(self._read, events) if chunk is not None]

    def finish(self) -> None:
        """To be called at the end of the bytes. Raises StreamError if the answer was cut off."""
        if not self.is_done:
            raise StreamError(
                "the stream ended before the answer was complete.", request_id=self.request_id
            )

    def _read(self, event: bytes) -> ChatCompletionChunk | None:
        if event.strip() == b"[DONE]":
            self.is_done = True
            return None
        try:
            body = json.loads(event)
        except ValueError as error:
            raise APIResponseError(
                f"an event of the stream is not JSON ({error}).", request_id=self.request_id
            ) from None
        if isinstance(body, dict) and isinstance(body.get("error"), dict):
            problem = body["error"]
            raise StreamError(
                f"{problem.get('message', 'the server reported an error')}",
                code=_as_str(problem.get("code")),
                request_id=self.request_id,
            )
        try:
            return ChatCompletionChunk.model_validate(body)
        except ValidationError as error:
            raise APIResponseError(
                f"an event of the stream is not a chunk: {explain(error)}.",
                request_id=self.request_id,
            ) from None


def _as_str(value: object) -> str | None:
    return None if value is None else str(value)
