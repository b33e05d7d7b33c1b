"""A stand-in for vLLM with our control plane, for tests of the sidecar as a process.

Takes vLLM's command line and reads only `--port`. A chat request takes `FAKE_CHAT_S` seconds.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

STATUS = {
    "protocol": 1,
    "model": "fake",
    "fingerprint": "f" * 64,
    "injection": {"enabled": True, "reason": None},
    "block_size": 16,
    "max_model_len": 1024,
}
CHAT = {"id": "1", "object": "chat.completion", "choices": [], "usage": {"prompt_tokens": 1}}


class Vllm(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._answer({"object": "list", "data": [{"id": "fake", "object": "model"}]})
        elif self.path == "/inferscale/status":
            self._answer(STATUS)
        else:
            self._answer({}, 404)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/v1/chat/completions":
            time.sleep(float(os.environ.get("FAKE_CHAT_S", "0")))
            self._answer(CHAT)
        else:
            self._answer({})

    def _answer(self, body: dict[str, Any], status: int = 200) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if pids := os.environ.get("FAKE_PID_FILE"):
        Path(pids).write_text(str(os.getpid()))
    ThreadingHTTPServer(("127.0.0.1", port), Vllm).serve_forever()


if __name__ == "__main__":
    main()
