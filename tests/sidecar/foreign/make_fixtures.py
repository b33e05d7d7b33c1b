"""Writes `mem0/`: what released versions of mem0ai leave on disk, made by themselves.

`python tests/sidecar/foreign/make_fixtures.py` installs each release into a throw-away environment
and runs this very file in it. Texts and vectors are made up; no model and no network is used then.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "mem0"
RELEASES = ("1.0.11", "2.2.1")
DIMS = 8


class HashEmbedder:
    """Directions that depend on the text alone."""

    def embed(self, text: str, *_: Any) -> list[float]:
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:DIMS]]

    def embed_batch(self, texts: list[str], *_: Any) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def write(folder: Path, provider: str) -> None:
    """A collection and its history, as `Memory` writes them."""
    from mem0 import Memory

    memory = Memory.from_config(
        {
            "vector_store": {
                "provider": provider,
                "config": {
                    "collection_name": "mem0",
                    "embedding_model_dims": DIMS,
                    "path": str(folder / provider),
                    **({"on_disk": True} if provider == "qdrant" else {}),
                },
            },
            "llm": {"provider": "openai", "config": {"api_key": "none"}},
            "embedder": {"provider": "openai", "config": {"api_key": "none"}},
            "history_db_path": str(folder / f"{provider}.db"),
        }
    )
    memory.embedding_model = HashEmbedder()
    told = [
        {"role": "user", "content": "I live in Lyon", "name": "Alice"},
        {"role": "assistant", "content": "Noted: Lyon"},
    ]
    first = memory.add(told, user_id="alice", metadata={"topic": "home", "n": 1}, infer=False)
    city = first["results"][0]["id"]
    for text in ("I live in Nice", "I live in Paris"):
        memory.update(city, text)
    memory.add("Alice likes green tea", user_id="alice", agent_id="guide", infer=False)
    memory.add("A secret", user_id="alice", infer=False)
    gone = memory.add("Gone", user_id="bob", run_id="r1", infer=False)["results"][0]["id"]
    memory.delete(gone)
    memory.add("The guide speaks 日本語", agent_id="guide", infer=False)
    for _ in range(2):  # the same text twice: two memories
        memory.add("Bob said it twice", user_id="bob", infer=False)
    if provider == "faiss":
        memory.vector_store._save()
    memory.db.connection.close()


def make(release: str) -> None:
    """Run this file with a release of mem0ai, in an environment that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        wanted = [f"mem0ai=={release}", "qdrant-client", "faiss-cpu"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *wanted], check=True)
        target = FOLDER / release
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        env = {**os.environ, "MEM0_TELEMETRY": "False", "MEM0_DIR": folder}
        for provider in ("qdrant", "faiss"):
            argv = [python, __file__, "--write", str(target), "--provider", provider]
            subprocess.run(argv, check=True, env=env)
        for lock in target.glob("**/.lock"):
            lock.unlink()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path)
    parser.add_argument("--provider")
    options = parser.parse_args()
    if options.write:
        write(options.write, options.provider)
    else:
        for each in RELEASES:
            make(each)
        sys.stderr.write(f"written to {FOLDER}\n")
