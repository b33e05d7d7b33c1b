"""One session with Mem0's `Memory`, and the shapes of its answers, recorded from a release.

`python tests/sdk/compat/shapes.py` with mem0ai installed rewrites the recording. It needs no
network: the store is a local file, the embedder a stand-in, and no LLM is asked.
"""

import json
import random
import tempfile
from pathlib import Path
from typing import Any

RECORDING = Path(__file__).parent / "snapshots" / "mem0ai-2.2.1-answers.json"


def session(memory: Any) -> dict[str, Any]:
    """Calls as users have them in their code, and what came of each."""
    user = {"user_id": "alice"}
    said = {"role": "user", "content": "I like tea", "name": "Al"}
    answers = {"add": memory.add([said], **user, run_id="r1", metadata={"a": 1}, infer=False)}
    memory_id = answers["add"]["results"][0]["id"]
    answers["get"] = memory.get(memory_id)
    answers["get_all"] = memory.get_all(filters=user)
    answers["search"] = memory.search("I like tea", filters=user)
    answers["search nothing"] = memory.search("I like tea", filters={"user_id": "bob"})
    answers["update"] = memory.update(memory_id, "I like coffee")
    answers["history"] = memory.history(memory_id)
    answers["delete"] = memory.delete(memory_id)
    answers["get deleted"] = memory.get(memory_id)
    answers["history deleted"] = memory.history(memory_id)[-1:]
    answers["history unknown"] = memory.history("nope")
    memory.add("I like tea", **user, infer=False)
    answers["get_all plain"] = memory.get_all(filters=user)
    answers["delete_all"] = memory.delete_all(**user)
    return answers


def shape(value: Any) -> Any:
    """Keys in their order, and the type of each value."""
    if isinstance(value, dict):
        return {key: shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value]
    return type(value).__name__


class StandIn:
    """Vectors that depend on the text only."""

    def __init__(self, config: Any) -> None:
        self.config = config

    def embed(self, text: str, *_: Any) -> list[float]:
        numbers = random.Random(text)
        return [numbers.gauss(0, 1) for _ in range(16)]

    def embed_batch(self, texts: list[str], *_: Any) -> list[list[float]]:
        return [self.embed(text) for text in texts]


def main() -> None:
    """Record the shapes of the release that is installed."""
    from mem0 import Memory

    with tempfile.TemporaryDirectory() as folder:
        store = {"path": f"{folder}/store", "embedding_model_dims": 16}
        unused = {"provider": "openai", "config": {"api_key": "unused"}}
        memory = Memory.from_config(
            {
                "vector_store": {"provider": "qdrant", "config": store},
                "history_db_path": f"{folder}/history.db",
                "embedder": unused,
                "llm": unused,
            }
        )
        memory.embedding_model = StandIn(memory.embedding_model.config)
        answers = session(memory)
        memory.close()
    lines = [
        f" {json.dumps(name)}: {json.dumps(shape(answer))}" for name, answer in answers.items()
    ]
    RECORDING.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
