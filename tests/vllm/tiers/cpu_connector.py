"""The connector with arenas in host memory, and what it does in vLLM.

    python -m tests.vllm.tiers.cpu_connector FOLDER

A model with MLA: its cache is the one that vLLM keeps plain on a CPU, so the fused op's reference
fills it. Prints one line of JSON.
"""

import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from tests.vllm.models.offline import HEAD, Offline, build, inject, set_environment
from tests.vllm.models.zoo import VOCABULARY

from inferscale_vllm.connector import InferScaleConnector
from inferscale_vllm.tiers.memory import CpuMemory

ARENA_BYTES = 2**20


class CountingMemory(CpuMemory):
    """Counts the injections out of arenas."""

    injections = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        self.injections += 1
        yield


class ArenaConnector(InferScaleConnector):
    """Opens arenas where the product has none."""

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        super().register_kv_caches(kv_caches)
        assert self._worker
        self.memory = CountingMemory()
        self._worker.use_arenas(ARENA_BYTES, ARENA_BYTES // 2, self.memory)
        self.memory.injections = 0


class Run:
    """A cold request, a hot one in another order, and that one again without arenas."""

    def __init__(self, folder: Path) -> None:
        module = "tests.vllm.tiers.cpu_connector"
        changes = {"kv_connector": "ArenaConnector", "kv_connector_module_path": module}
        self.engine = Offline("deepseek", folder, **changes)
        rng = random.Random(5)
        self._items = [[rng.randrange(10, VOCABULARY) for _ in range(n)] for n in (9, 20, 14, 30)]
        self._head = [rng.randrange(10, VOCABULARY) for _ in range(HEAD)]
        self._keys = [f"{i + 1:064x}" for i in range(len(self._items))]

    def prompt(self, order: list[int]) -> list[int]:
        return self._head + list(chain(*(self._items[i] for i in order))) + [5, 6, 7]

    def seen(self) -> dict[str, Any]:
        forth, back = [0, 1, 2, 3], [3, 1, 0, 2]
        params = build(self._keys, self._items, "build")
        self.engine.complete(self.prompt(forth), params, salt="build")
        self.engine.worker.writer.flush()
        steps = [self.ask("cold", forth), self.ask("hot", back)]
        self.engine.worker._arenas = None
        steps.append(self.ask("bank", back))
        return {"span": HEAD + sum(map(len, self._items)), "steps": steps}

    def ask(self, name: str, order: list[int]) -> dict[str, Any]:
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        params = inject([self._keys[i] for i in order], name)
        answer, _ = self.engine.complete(self.prompt(order), params, salt=name)
        return {
            "answer": answer,
            "report": self.engine.report(name),
            "delayed": self.engine.state.get_note("counters").get("delayed_requests", 0),
            "injections": get_kv_transfer_group().memory.injections,
            "tiers": self.engine.state.get_note("tiers"),
        }


if __name__ == "__main__":
    set_environment()
    print("RESULT", json.dumps(Run(Path(sys.argv[1])).seen()), flush=True)  # noqa: T201
