"""Every other path of `/v1/`: through and back unchanged, and nowhere else."""

import pytest
from tests.sidecar.chat.stage import Stage
from tests.sidecar.engine.fake_engine import FakeEngine


async def test_method_path_query_body_status_and_headers_pass(stage: Stage, http):
    answer = await http.post(
        "/v1/embeddings?a=1&b=%20x", content=b"\x00raw", headers={"x-mine": "1"}
    )
    assert answer.status_code == 418 and answer.headers["x-from-engine"] == "yes"
    assert "connection" not in answer.headers
    assert answer.json() == {
        "method": "POST",
        "path": "/v1/embeddings",
        "query": "a=1&b=%20x",
        "body": "\x00raw",
    }
    assert stage.engine.requests[-1].headers["x-mine"] == "1"


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
async def test_other_methods_pass(stage: Stage, http, method):
    answer = await http.request(method, "/v1/files/abc")
    assert answer.status_code == 418
    assert stage.engine.requests[-1].method == method


async def test_models_come_from_the_engine(http):
    assert (await http.get("/v1/models")).json()["data"][0]["id"] == "demo"


async def test_credentials_of_the_client_stay_here(stage: Stage, http):
    secrets = {
        "authorization": "Bearer k",
        "x-api-key": "k",
        "cookie": "c",
        "x-inferscale-secret": "s",
    }
    await http.get("/v1/files", headers=secrets)
    await http.post("/v1/chat/completions", json={"messages": []}, headers=secrets)
    for request in stage.engine.requests:
        assert not set(secrets) & set(request.headers)


@pytest.mark.parametrize(
    "path",
    [
        "/inferscale/status",
        "/v1/../inferscale/status",
        "/v1/%2e%2e/inferscale/status",
        "/v1/x/..%2f..%2finferscale/status",
        "/v1/..\\inferscale/status",
        "//inferscale/status",
        "/metrics/../inferscale/status",
    ],
)
async def test_the_control_plane_cannot_be_reached(stage: Stage, path):
    reached = []

    class Watched(FakeEngine):
        async def _control(self, request):
            reached.append(request.url.path)
            return await super()._control(request)

    watched = Watched()
    async with watched.client() as client:
        staged = Stage(watched, client)
        status = await raw_get(staged.app, path)
    assert status == 404 and not reached


async def raw_get(app, path: str) -> int:
    """A request whose path no client library has tidied up."""
    from urllib.parse import unquote

    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [],
        "scheme": "http",
        "server": ("sidecar", 80),
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    return sent[0]["status"]


@pytest.mark.parametrize(
    "path",
    ["/v1/responses/resp_1/cancel", "/v1/messages/count_tokens", "/v1/chat/completions/render"],
)
async def test_what_generates_gets_the_tenants_salt_and_no_forged_fields(stage: Stage, http, path):
    answer = await http.post(path, json={"input": "hi", "cache_salt": "mine"})
    assert len(answer.json()["body"].split('"cache_salt": "')[1].split('"')[0]) == 64
    forged = await http.post(path, json={"kv_transfer_params": {"inferscale": {}}})
    assert forged.status_code == 400
    unsupported = await http.post(path, json={"memory": {"handle": "mh_x"}})
    assert unsupported.json()["error"]["param"] == "memory"


async def test_an_engine_that_is_down_is_503(stage: Stage, http):
    stage.engine.is_down = True
    assert (await http.get("/v1/models")).status_code == 503
