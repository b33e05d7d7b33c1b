"""Over real sockets: what a mock transport cannot show."""

import inspect
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from inferscale import APIConnectionError, APITimeoutError, AsyncMemory, Memory, NotReadyError


class Handler(BaseHTTPRequestHandler):
    """Streams for ever on chat, hangs on history, answers builds."""

    gone = threading.Event()

    def do_GET(self):
        if self.path.endswith("/history"):
            self.gone.wait(5)
            return
        body = json.dumps({"queued": 0, "building": 0, "ready": 1, "failed": 0}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "x" * 1000}}]}
        try:
            while True:
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        except OSError:
            self.gone.set()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    """Address of a server that speaks enough of the protocol."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    Handler.gone.set()
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@pytest.fixture
def closed_port():
    """Address at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
async def test_nobody_there(closed_port, kind):
    memory = kind(closed_port, max_retries=1)
    with pytest.raises(APIConnectionError, match="inferscale-sidecar start") as caught:
        await _settled(memory.builds())
    assert not caught.value.maybe_received
    with pytest.raises(NotReadyError):
        await _settled(memory.wait_until_ready(timeout_s=0.1))
    await _settled(memory.close())


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
async def test_no_answer_in_time(server, kind):
    memory = kind(server, timeout_s=0.1)
    with pytest.raises(APITimeoutError):
        await _settled(memory.history("m"))
    await _settled(memory.close())


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    server, closed_port, kind, monkeypatch
):
    # The environment itself is under test here; it cannot be passed in.
    monkeypatch.setenv("HTTP_PROXY", closed_port)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    memory = kind(server)
    assert (await _settled(memory.builds())).ready == 1
    await _settled(memory.close())


@pytest.mark.parametrize("kind", [Memory, AsyncMemory])
async def test_leaving_a_stream_hangs_up(server, kind):
    Handler.gone.clear()
    texts = []
    memory = kind(server)
    stream = await _settled(memory.chat("hi", stream=True))
    if hasattr(stream, "__aiter__"):
        async with stream:
            async for chunk in stream:
                texts.append(chunk.text)
                break
    else:
        with stream:
            for chunk in stream:
                texts.append(chunk.text)
                break
    assert texts == ["x" * 1000] and Handler.gone.wait(5)
    await _settled(memory.close())


async def _settled(value):
    return await value if inspect.isawaitable(value) else value
