"""The sidecar as an arm: a real server without an engine, asked by the Python SDK over HTTP."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import httpx
import numpy as np
import psutil
from benchmarks._sidecar import Sidecar

from inferscale import Memory

DIMS = 384
_TIMEOUT_S = 3_600
_CHUNK = 500


class InferScale:
    """A running sidecar. Times are those of the client."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar
        self._memory = Memory(base_url=sidecar.url, timeout_s=_TIMEOUT_S)
        self._http = httpx.Client(base_url=sidecar.url, timeout=_TIMEOUT_S, trust_env=False)

    def call(self, op: str, **arguments: Any) -> tuple[float, Any]:
        """Milliseconds that it took, and the result."""
        asked = getattr(self, f"_{op}")
        started = time.perf_counter()
        result = asked(**arguments)
        return (time.perf_counter() - started) * 1e3, result

    def _add(self, user_id: str, text: str) -> int:
        return len(self._memory.add(text, user_id=user_id, infer=False).results)

    def _search(self, user_id: str, query: str, k: int) -> int:
        return len(self._memory.search(query, user_id=user_id, limit=k).results)

    def _recall(self, user_id: str, query: str, k: int) -> int:
        return len(self._memory.recall(query, user_id=user_id, k=k).items)

    def _delete_all(self, user_id: str) -> int:
        return self._memory.delete_all(user_id=user_id).deleted

    def _count(self, user_id: str) -> int:
        query = {"user_id": user_id, "limit": 1}
        found = self._http.get("/v1/memories", params=query).raise_for_status().json()
        return int(found["total"])

    def _rss(self) -> float:
        return float(psutil.Process(self._sidecar.pid).memory_info().rss) / 1e6

    def fill(self, users: Sequence[tuple[str, Sequence[str]]], seed: int) -> None:
        """Import memories of users with random vectors, which saves the time to embed them."""
        header = self._http.get("/v1/export", params={"vectors": "true"}).content.splitlines()[0]
        answer = self._http.post("/v1/import", content=_lines(header, users, seed))
        report = answer.raise_for_status().json()
        wanted = sum(len(texts) for _, texts in users)
        if report["memories"] != wanted:
            raise SystemExit(f"of {wanted} memories {report['memories']} were imported: {report}")

    def close(self) -> None:
        """Give connections back."""
        self._memory.close()
        self._http.close()


def _lines(header: bytes, users: Sequence[tuple[str, Sequence[str]]], seed: int) -> Iterator[bytes]:
    rng, number = np.random.default_rng(seed), 0
    yield header + b"\n"
    lines: list[bytes] = []
    for user_id, texts in users:
        for text in texts:
            number += 1
            lines.append(_line(user_id, text, rng.normal(size=DIMS)))
            if len(lines) == _CHUNK:
                yield b"".join(lines)
                lines = []
    yield b"".join(lines)
    yield json.dumps({"type": "end", "memories": number, "links": 0}).encode() + b"\n"


def _line(user_id: str, text: str, vector: Any) -> bytes:
    now = "2026-01-01T00:00:00Z"
    unit = (vector / np.linalg.norm(vector)).astype("<f4")
    fields = {
        "type": "memory",
        "id": str(uuid.uuid4()),
        "user_id": user_id,
        "memory": text,
        "role": "user",
        "created_at": now,
        "updated_at": now,
        "versions": [{"version": 1, "event": "ADD", "memory": text, "created_at": now}],
        "vector": base64.b64encode(unit.tobytes()).decode(),
    }
    return json.dumps(fields).encode() + b"\n"
