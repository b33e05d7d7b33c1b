"""Streamed answers: decoding, endings, and both kinds of stream."""

import inspect
import json

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale import APIConnectionError, APIResponseError, StreamError
from inferscale._sse import ChunkReader, EventDecoder

HEADERS = {"x-inferscale-request-id": "r1", "content-type": "text/event-stream"}


def _chunk(text, **more):
    delta = {"index": 0, "delta": {"content": text}, **more}
    return {"id": "c", "model": "demo", "choices": [delta]}


def _events(*bodies, end="\n"):
    lines = [json.dumps(body, ensure_ascii=False) for body in bodies]
    return "".join(f"data: {line}{end}{end}" for line in [*lines]).encode()


DONE = b"data: [DONE]\n\n"
TEXT = st.text(st.characters(codec="utf-8"), max_size=30) | st.sampled_from(
    ["\u2028", "\x85", "\x0b\x0c\x1c", "é\u2029"]
)


@given(st.lists(TEXT, max_size=5), st.data(), st.sampled_from(["\n", "\r\n"]))
def test_how_the_bytes_are_cut_up_makes_no_difference(texts, data, end):
    raw = _events(*map(_chunk, texts), end=end) + DONE
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    reader = ChunkReader(None)
    chunks = [chunk for piece in pieces for chunk in reader.feed(piece)]
    assert [chunk.text for chunk in chunks] == texts
    reader.finish()


def test_comments_other_fields_and_many_data_lines():
    decoder = EventDecoder()
    assert decoder.feed(b": ping\n\nevent: x\nid: 1\ndata: a\ndata:b\n\n\n") == [b"a\nb"]


class _Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """Yields pieces, raises an exception among them, and remembers whether it was closed."""

    def __init__(self, *pieces):
        self.pieces, self.is_closed = pieces, False

    def __iter__(self):
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def __aiter__(self):
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self):
        self.is_closed = True

    async def aclose(self):
        self.is_closed = True


def _stream_of(sidecar, *pieces):
    body = _Body(*pieces)
    sidecar.replies = [httpx.Response(200, headers=HEADERS, stream=body)]
    return body


async def _read(stream):
    if hasattr(stream, "__aiter__"):
        return [chunk async for chunk in stream]
    return list(stream)


async def _settled(value):
    return await value if inspect.isawaitable(value) else value


async def test_chunks_then_the_report(sidecar, memory):
    final = {"id": "c", "choices": [], "usage": {"prompt_tokens": 5, "total_tokens": 7}}
    body = _stream_of(sidecar, _events(_chunk("In "), _chunk("Oslo.", finish_reason="stop")), b"")
    body.pieces += (_events(final), DONE)
    stream = await memory.chat("Where?", user_id="alice", stream=True, timeout_s=3)
    assert sidecar.body["stream"] is True and sidecar.body["memory"] == {"user_id": "alice"}
    assert sidecar.last.headers["accept"] == "text/event-stream"
    assert sidecar.last.extensions["timeout"]["read"] == 3
    chunks = await _read(stream)
    assert "".join(chunk.text for chunk in chunks) == "In Oslo."
    assert chunks[-1].usage.prompt_tokens == 5 and body.is_closed
    sidecar.replies.clear()
    sidecar.reply({"request_id": "r1", "mode": "partial", "items": 2})
    assert (await _settled(stream.report())).mode == "partial"
    assert sidecar.last.url.path == "/v1/reports/r1"


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([_events(_chunk("a"))], StreamError),
        ([_events({"error": {"message": "engine died", "code": 500}}), DONE], StreamError),
        ([b"data: {nonsense\n\n"], APIResponseError),
        ([b"data: []\n\n"], APIResponseError),
        ([_events(_chunk("a")), httpx.ReadError("reset")], APIConnectionError),
    ],
)
async def test_an_answer_that_is_cut_off_is_never_taken_for_whole(sidecar, memory, pieces, error):
    body = _stream_of(sidecar, *pieces)
    with pytest.raises(error):
        await _read(await memory.chat("hi", stream=True))
    assert body.is_closed and len(sidecar.requests) == 1


async def test_leaving_early_closes_the_connection(sidecar, memory):
    body = _stream_of(sidecar, _events(_chunk("a")), _events(_chunk("b")), DONE)
    stream = await memory.chat("hi", stream=True)
    if hasattr(stream, "__aenter__"):
        async with stream:
            async for _ in stream:
                break
    else:
        with stream:
            for _ in stream:
                break
    assert body.is_closed


async def test_a_stream_is_read_once(sidecar, memory):
    _stream_of(sidecar, DONE)
    stream = await memory.chat("hi", stream=True)
    await _read(stream)
    with pytest.raises(StreamError, match="once"):
        await _read(stream)


async def test_an_error_before_the_stream_is_an_error_of_the_call(sidecar, memory):
    sidecar.refuse(400, "unknown model", code="model_not_found")
    with pytest.raises(Exception, match="unknown model") as caught:
        await memory.chat("hi", model="x", stream=True)
    assert caught.value.status_code == 400
