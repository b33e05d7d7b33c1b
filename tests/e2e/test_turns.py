"""A conversation whose memory stands behind its history, over the sidecar and a real vLLM."""

import time
from typing import Any

import pytest

from inferscale import Memory

from .process import Engine, SidecarProcess

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

BLOCK = 128  # tokens, of vLLM on CPU
K = 20
DONE = "vllm:request_success_total"
TALK = "Tell me at length how to bake bread with rye flour, and what can go wrong with it. "
QUESTIONS = (
    "What is the name of Noor's cat?",
    "What does Noor's brother do?",
    "When is Noor's birthday?",
)


def test_the_history_is_a_native_hit_in_every_turn(
    memory: Memory, engine: Engine, noor: str
) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are the assistant of Noor. Be brief."},
        {"role": "user", "content": TALK * 12},
        {"role": "assistant", "content": "Bake it slowly, in a hot oven, and let it rest. " * 12},
    ]
    for turn, question in enumerate(QUESTIONS):
        messages.append({"role": "user", "content": question})
        answer = memory.chat(
            messages,
            user_id=noor,
            k=K,
            temperature=0,
            max_tokens=24,
            stop=["\n"],
            return_token_ids=True,
        )
        report = answer.memory
        assert report is not None and report.tokens is not None
        assert (report.mode, report.reason, report.position) == ("injected", None, "last")
        history = engine.tokens_of(messages[:-1])
        tokens = report.tokens
        assert tokens.native >= history // BLOCK * BLOCK, (turn, history, tokens)
        assert tokens.prefilled < BLOCK, (turn, tokens)
        shown = engine.text((answer.model_extra or {})["prompt_token_ids"])
        _, _, last = shown.rpartition("<|im_start|>user\n")
        assert last.startswith("Memory of earlier conversations")
        assert last.endswith(f"(end of memory)\n\n{question}<|im_end|>\n<|im_start|>assistant\n")
        assert shown.count("(end of memory)") == 1, "a history holds no memory"
        said = answer.choices[0].message.content
        messages.append({"role": "assistant", "content": said})
        engine.wait_idle(60)


def test_injected_memory_says_what_its_text_says(memory: Memory, noor: str) -> None:
    """Greedy answers behind a history: most of them word for word those of the text."""
    talk = [{"role": "user", "content": TALK * 3}, {"role": "assistant", "content": "Slowly."}]
    same = 0
    for question in QUESTIONS:
        asked = [*talk, {"role": "user", "content": question}]
        handle = memory.recall(question, user_id=noor, k=K)
        fields = [{"handle": handle.id, "inject": inject} for inject in (True, False)]
        answers = [
            memory.chat(asked, memory=field, temperature=0, max_tokens=12) for field in fields
        ]
        modes = [answer.memory.mode for answer in answers if answer.memory]
        assert modes == ["injected", "text"]
        words = [str(answer.choices[0].message.content).split()[:4] for answer in answers]
        same += words[0] == words[1]
    assert same >= 2


def test_a_stream_is_followed_by_a_prepared_turn(
    memory: Memory, engine: Engine, sidecar: SidecarProcess, noor: str
) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": TALK * 10},
        {"role": "assistant", "content": "Gladly."},
        {"role": "user", "content": QUESTIONS[0]},
    ]
    engine.wait_idle(60)
    before = engine.counter(DONE)
    with memory.chat(messages, user_id=noor, k=K, stream=True, temperature=0, max_tokens=24) as it:
        said = "".join(chunk.choices[0].delta.content or "" for chunk in it if chunk.choices)
    deadline = time.monotonic() + 60
    while engine.counter(DONE) < before + 3:  # what stands before the memory, the turn, the next
        assert time.monotonic() < deadline, "no turn was prepared"
        time.sleep(0.2)
    time.sleep(0.5)  # the bank holds it soon
    messages += [{"role": "assistant", "content": said}, {"role": "user", "content": QUESTIONS[1]}]
    last = {"user_id": noor, "k": K, "prepare": False}
    answer = memory.chat(messages, memory=last, temperature=0, max_tokens=4)
    assert answer.memory is not None and answer.memory.mode == "injected", answer.memory
    engine.wait_idle(60)
    assert engine.counter(DONE) == before + 4, "nothing was left to build ahead"
