"""Mem0 in a process of its own, told what to do line by line; it times itself.

Runs in the environment of `mem0_arm`, and imports nothing of ours: mem0ai, its default store (a
local Qdrant on disk), no LLM (`infer=False`), and the embedder that the sidecar uses, too.
"""

import json
import os
import resource
import sqlite3
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DIMS = 384
_BATCH = 1_000


class Worker:
    """One `Memory` on one folder."""

    def __init__(self, folder: str, model: str) -> None:
        import torch
        from mem0 import Memory

        torch.set_num_threads(1)  # as the sidecar does; not slower for single texts
        self._memory = Memory.from_config(
            {
                "vector_store": {
                    "provider": "qdrant",
                    "config": {
                        "collection_name": "mem0",
                        "embedding_model_dims": DIMS,
                        "path": str(Path(folder) / "qdrant"),
                        "on_disk": True,
                    },
                },
                "llm": {"provider": "openai", "config": {"api_key": "none"}},
                "embedder": {
                    "provider": "huggingface",
                    "config": {"model": model, "embedding_dims": DIMS},
                },
                "history_db_path": str(Path(folder) / "history.db"),
            }
        )

    def fill(self, user_id: str, texts: list[str], seed: int) -> None:
        """Put memories into the store, past `add` and its embedder, with random vectors."""
        vectors = np.random.default_rng(seed).normal(size=(len(texts), DIMS))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        now = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        payloads = [
            {
                "data": text,
                "user_id": user_id,
                "role": "user",
                "hash": uuid.uuid4().hex,
                "created_at": now,
                "updated_at": now,
                "text_lemmatized": text,
            }
            for text in texts
        ]
        ids = [str(uuid.uuid4()) for _ in texts]
        self._durable(False)
        for at in range(0, len(texts), _BATCH):
            some = slice(at, at + _BATCH)
            self._memory.vector_store.insert(
                vectors=vectors[some].tolist(), payloads=payloads[some], ids=ids[some]
            )
        self._durable(True)

    def _durable(self, wanted: bool) -> None:
        """Filling is not measured: it need not wait for the disk, point by point."""
        local = self._memory.vector_store.client._client
        storage: sqlite3.Connection = local.collections["mem0"].storage.storage
        storage.execute(f"PRAGMA synchronous={'FULL' if wanted else 'OFF'}")

    def add(self, user_id: str, text: str) -> int:
        """Measured."""
        return len(self._memory.add(text, user_id=user_id, infer=False)["results"])

    def search(self, user_id: str, query: str, k: int) -> int:
        """Measured."""
        found = self._memory.search(query, filters={"user_id": user_id}, top_k=k, threshold=0.0)
        return len(found["results"])

    def delete_all(self, user_id: str) -> int:
        """Measured."""
        self._memory.delete_all(user_id=user_id)
        return 0

    def count(self, user_id: str) -> int:
        """How many memories a user has."""
        found = self._memory.get_all(filters={"user_id": user_id}, top_k=1_000_000)
        return len(found["results"])

    def rss(self) -> float:
        """Resident memory now, in MB."""
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6


def main(folder: str, model: str) -> None:
    """Answer each line with the time that it took and what came of it."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever libraries print goes to stderr
    worker = Worker(folder, model)
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        call: Callable[..., Any] = getattr(worker, asked.pop("op"))
        started = time.perf_counter()
        result = call(**asked)
        elapsed_ms = (time.perf_counter() - started) * 1e3
        answers.write(json.dumps({"ms": elapsed_ms, "result": result}) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
