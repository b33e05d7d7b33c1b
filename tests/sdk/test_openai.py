"""`inferscale.OpenAI` and `AsyncOpenAI`: where memory goes, and that nothing else changes."""

import inspect
import json

import httpx
import pytest

import inferscale
from inferscale import InvalidArgumentError
from inferscale._handle import create_handle

openai = pytest.importorskip("openai")

SCOPE = {"user_id": "alice", "k": 20}
ASK = {"model": "demo", "messages": [{"role": "user", "content": "Where?"}]}


@pytest.fixture(params=["sync", "async"])
async def connect(request, sidecar):
    """`connect(**options)` makes a client of either kind, talking to `sidecar`."""
    opened = []

    def create(**options):
        mock = httpx.MockTransport(sidecar)
        settings = {"base_url": "http://sidecar.test", **options}
        if request.param == "sync":
            client = inferscale.OpenAI(http_client=httpx.Client(transport=mock), **settings)
        else:
            client = inferscale.AsyncOpenAI(
                http_client=httpx.AsyncClient(transport=mock), **settings
            )
        opened.append(client)
        return client

    yield create
    for client in opened:
        await settled(client.close())


async def settled(value):
    return await value if inspect.isawaitable(value) else value


async def ask(client, **options):
    return await settled(client.chat.completions.create(**ASK, **options))


async def test_memory_is_attached_as_one_field_and_the_report_comes_back(
    connect, sidecar, completion
):
    sidecar.reply(completion)
    answer = await ask(connect(memory=SCOPE), temperature=0, extra_body={"cache_salt": "s"})
    assert str(sidecar.last.url) == "http://sidecar.test/v1/chat/completions"
    assert sidecar.body == {**ASK, "temperature": 0, "cache_salt": "s", "memory": SCOPE}
    assert answer.choices[0].message.content == "In Oslo."
    assert answer.model_extra["memory"]["mode"] == "injected"


async def test_a_handle_a_call_and_none(connect, sidecar, completion, handle_body):
    sidecar.reply(completion)
    handle = create_handle(handle_body)
    client = connect(memory=handle)
    await ask(client)
    assert sidecar.body["memory"] == {"handle": handle.id}
    await ask(client, extra_body={"memory": SCOPE})
    assert sidecar.body["memory"] == SCOPE
    await ask(client, extra_body={"memory": handle, "x": 1})
    assert sidecar.body["memory"] == {"handle": handle.id} and sidecar.body["x"] == 1
    await ask(client, extra_body={"memory": None})
    assert "memory" not in sidecar.body
    await ask(connect())
    assert sidecar.body == ASK


async def test_copies_share_connections_and_keep_or_change_memory(connect, sidecar, completion):
    sidecar.reply(completion)
    client = connect(memory=SCOPE, api_key="key-1")
    await ask(client.with_options(timeout=3))
    assert sidecar.body["memory"] == SCOPE
    other = client.with_memory("mh_2")
    assert type(other) is type(client) and other._client is client._client
    await ask(other)
    assert sidecar.body["memory"] == {"handle": "mh_2"}
    assert sidecar.last.headers["authorization"] == "Bearer key-1"
    assert str(sidecar.last.url) == "http://sidecar.test/v1/chat/completions"
    await ask(client.with_memory(None))
    assert "memory" not in sidecar.body
    assert client.memory == SCOPE


async def test_a_retry_attaches_the_same_once(connect, sidecar, completion):
    sidecar.refuse(503, retry_after_ms="1")
    sidecar.reply(completion)
    await ask(connect(memory=SCOPE), extra_body={"x": 1})
    bodies = [json.loads(request.content) for request in sidecar.requests]
    assert len(bodies) == 2 and bodies[0] == bodies[1] == {**ASK, "x": 1, "memory": SCOPE}


async def test_streams_and_text_completions(connect, sidecar):
    chunk = {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "demo",
        "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}],
    }
    events = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
    event_stream = {"content-type": "text/event-stream"}
    sidecar.replies = [httpx.Response(200, text=events, headers=event_stream)]
    client = connect(memory=SCOPE)
    stream = await ask(client, stream=True)
    chunks = [c async for c in stream] if hasattr(stream, "__aiter__") else list(stream)
    assert chunks[0].choices[0].delta.content == "Hi"
    assert sidecar.body["memory"] == SCOPE and sidecar.body["stream"] is True
    sidecar.replies.clear()
    sidecar.reply({"id": "c", "object": "text_completion", "created": 1, "choices": []})
    await settled(client.completions.create(model="demo", prompt="x"))
    assert sidecar.last.url.path == "/v1/completions" and sidecar.body["memory"] == SCOPE


async def test_responses_have_memory_and_other_endpoints_are_left_alone(connect, sidecar):
    sidecar.reply({"object": "list", "data": [], "model": "m", "output": []})
    client = connect(memory=SCOPE)
    await settled(client.embeddings.create(model="m", input="x", encoding_format="float"))
    assert "memory" not in sidecar.body
    await settled(client.responses.create(model="m", input="x"))
    assert sidecar.body["memory"] == SCOPE
    await settled(client.with_memory(None).responses.create(model="m", input="x"))
    assert "memory" not in sidecar.body


async def test_wrong_memory_is_refused_where_it_is_given(connect):
    with pytest.raises(InvalidArgumentError):
        connect(memory="alice")
    with pytest.raises(InvalidArgumentError):
        connect().with_memory({"user_id": "*"})


async def test_only_the_sidecars_own_key_is_sent_to_it(connect, sidecar, completion, monkeypatch):
    # The environment itself is under test here; it cannot be passed in.
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.test")
    monkeypatch.delenv("INFERSCALE_API_KEY", raising=False)
    sidecar.reply(completion)
    await ask(connect(base_url=None))
    assert sidecar.last.url.host == "127.0.0.1" and sidecar.last.url.port == 8420
    assert "sk-secret" not in str(sidecar.last.headers.raw)
    assert "authorization" not in sidecar.last.headers
    monkeypatch.setenv("INFERSCALE_API_KEY", "key-2")
    await ask(connect())
    assert sidecar.last.headers["authorization"] == "Bearer key-2"


def test_they_are_openais_clients():
    assert issubclass(inferscale.OpenAI, openai.OpenAI)
    assert issubclass(inferscale.AsyncOpenAI, openai.AsyncOpenAI)


@pytest.mark.parametrize("base", [openai.OpenAI, openai.AsyncOpenAI])
def test_the_hook_is_there(base):
    # An underscore name: if OpenAI renames it, memory would silently not be attached.
    assert callable(base._prepare_options) and callable(base._prepare_request)
    assert "_extra_kwargs" in inspect.signature(base.copy).parameters
