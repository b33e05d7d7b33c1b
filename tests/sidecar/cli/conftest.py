"""A stand-in for a running sidecar."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

Routes = dict[str, tuple[int, str]]


class FakeSidecar:
    """Answers GET and POST with what `routes` says; a test changes it."""

    def __init__(self) -> None:
        self.routes: Routes = {}
        routes = self.routes

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = routes.get(self.path, (404, "{}"))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def set_parts(self, status: int = 200, **parts: str) -> None:
        word = "ready" if status == 200 else "not_ready"
        self.routes["/ready"] = (status, json.dumps({"status": word, "parts": parts}))


@pytest.fixture
def sidecar() -> Iterator[FakeSidecar]:
    fake = FakeSidecar()
    fake.set_parts(engine="ready", injection="on", self_test="passed: 0", builds="3 built")
    fake.routes["/metrics"] = (200, "")
    fake.routes["/v1/builds"] = (200, '{"queued": 1, "building": 0, "ready": 3, "failed": 0}')
    thread = threading.Thread(target=fake.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    fake.server.shutdown()
    thread.join()
    fake.server.server_close()
