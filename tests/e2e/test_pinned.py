"""A pinned block before the memories: it is read, they are injected; and it is gone with a word."""

import sqlite3
import time
from collections.abc import Set
from typing import Any

import pytest

from inferscale import Memory

from .process import Engine, SidecarProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

QUESTION = "What is the name of Noor's cat?"
K = 20
SHORT: dict[str, Any] = {"temperature": 0, "max_tokens": 12}


def test_a_pinned_block_is_read_and_the_memories_behind_it_are_injected(
    memory: Memory, sidecar: SidecarProcess, engine: Engine, noor: str
) -> None:
    notes = "She is left-handed.\nShe cannot swim."
    block = memory.blocks.create("notes", notes, user_id=noor, description="what to know of Noor")
    memory.chat("Hello.", user_id=noor, k=2, **SHORT)
    kept = wait_for_prefix(sidecar, engine, block.id)
    handle = memory.recall("What must be watered?", user_id=noor, k=K)
    assert [each.id for each in handle.blocks] == [block.id] and len(handle) == K
    answer = memory.chat(QUESTION, memory=handle, return_token_ids=True, **SHORT)
    report = answer.memory
    assert report is not None and report.tokens is not None and answer.usage is not None
    assert (report.mode, report.reason) == ("injected", None), report
    assert (report.items, report.blocks) == (K, 1)
    tokens = report.tokens
    assert tokens.injected > tokens.prefilled, "the memories must not be read"
    assert tokens.injected + tokens.native + tokens.prefilled == answer.usage.prompt_tokens
    seen = engine.text((answer.model_extra or {})["prompt_token_ids"])
    assert f"{handle}<|im_end|>" in seen and "> She cannot swim.\n" in seen

    memory.blocks.append(block.id, "She is allergic to nuts.")
    memory.chat("Hello.", user_id=noor, k=2, **SHORT)
    kept |= wait_for_prefix(sidecar, engine, block.id, beside=kept)
    changed = memory.chat("What must be watered?", user_id=noor, k=K, **SHORT).memory
    assert changed is not None and (changed.mode, changed.blocks) == ("injected", 1), changed

    memory.blocks.delete(block.id)
    deadline = time.monotonic() + 30
    while engine.present(sorted(kept)):
        assert time.monotonic() < deadline, "the bank still holds what the block said"
        time.sleep(0.1)
    assert memory.get_handle(handle.id).blocks == ()


def wait_for_prefix(
    sidecar: SidecarProcess, engine: Engine, block_id: str, *, beside: Set[str] = frozenset()
) -> set[str]:
    """The keys, other than `beside`, under which the bank holds the text of a block."""
    uri = f"file:{sidecar.home / 'inferscale.db'}?mode=ro"
    deadline = time.monotonic() + 30
    while True:
        connection = sqlite3.connect(uri, uri=True)
        query = "SELECT key FROM block_prefixes WHERE block_id = ?"
        keys = {key for (key,) in connection.execute(query, (block_id,))} - beside
        connection.close()
        if keys and engine.present(sorted(keys)) == keys:
            return keys
        assert time.monotonic() < deadline, "what stands before the memories was not built"
        time.sleep(0.1)
