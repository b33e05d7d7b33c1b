"""A stand-in for vLLM's API server: answers /health, starts a child, and misbehaves on demand.

python fake_engine.py PORT [--delay S] [--exit-after S] [--ignore-term] [--pids FILE]
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--delay", type=float, default=0)
    parser.add_argument("--exit-after", type=float)
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--pids", type=Path)
    options = parser.parse_args()
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    core = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if options.pids:
        options.pids.write_text(f"{os.getpid()} {core.pid}")
    sys.stdout.write("loading weights\n")
    if options.exit_after is not None:
        time.sleep(options.exit_after)
        sys.stdout.write("boom: out of memory\n")
        sys.stdout.flush()
        os._exit(7)
    time.sleep(options.delay)
    server = HTTPServer(("127.0.0.1", options.port), Health)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    threading.Event().wait()


main()
