"""A conversation of an agent, turn by turn: memory in the system message, or behind the history.

The agent has some 2,000 tokens of tools and a history of ten turns; each turn recalls 20 memories
with its question, and the answer becomes part of the history. Rows:

  template   where the chat template prints the tools: `behind` the system message's text, or
             `before` it
  memory     `injected` or `text`
  position   `system` or `last`
  prepared   whether the next turn was prepared in the background when an answer had ended
  tokens     of the prompt, as all that follow medians over turns; of those
  native     from vLLM's own cache
  injected   from the bank
  prefilled  computed
  ttft_ms    to the first token of the turns after the history's, recall included
  right      share of turns whose answer holds the number that was asked for
  samples    turns

All arms take turns in one run, each with a conversation of its own.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from benchmarks import _facts, _output
from benchmarks._items import BUILD_TIMEOUT_S, USER, remember
from benchmarks._sidecar import Sidecar, add_flags, started
from benchmarks._tools import TEMPLATES, Template, tools

from inferscale import Memory
from inferscale._chat import Usage
from inferscale.protocol.chat import MemoryReport

MEMORIES, ITEMS, HISTORY_TURNS, ANSWER_TOKENS = 300, 20, 10, 48
QUICK_TURNS, TURNS = 3, 6
QUICK_ROUNDS, ROUNDS = 1, 2
SYSTEM = "You are the assistant of a busy person. Answer in one short sentence."
IDLE_S, CALM = 30.0, 5


@dataclass(frozen=True)
class Arm:
    """One way to hold a conversation."""

    template: Template
    memory: str
    position: str
    prepared: bool


def arms(*, quick: bool) -> list[Arm]:
    """All arms; `--quick` leaves out those whose memory is text."""
    found: list[Arm] = []
    for template in TEMPLATES:
        found.append(Arm(template, "injected", "system", False))
        found += [Arm(template, "injected", "last", prepared) for prepared in (True, False)]
        if not quick:
            found += [Arm(template, "text", position, False) for position in ("system", "last")]
    return found


@dataclass(frozen=True)
class Sample:
    """One turn: milliseconds to its first token, where its tokens came from, and the answer."""

    ms: float
    native: int
    injected: int
    prefilled: int
    is_right: bool
    position: str
    mode: str


@dataclass
class Conversation:
    """A history that grows."""

    arm: Arm
    questions: Iterator[tuple[str, str]]
    messages: list[dict[str, Any]] = field(default_factory=list)


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    add_flags(parser)
    options = parser.parse_args()
    options.engine_args += " --trust-request-chat-template"
    machine = _output.machine()
    with started(options) as sidecar, Memory(sidecar.url) as memory:
        codes = _codes(options.seed)
        remember(memory, MEMORIES, options.seed)
        _add_codes(memory, codes)
        found = _measure(sidecar, memory, codes, options)
    rows = [row(arm, samples) for arm, samples in found.items()]
    _output.show("turns", machine, rows, as_json=options.json)


def _codes(seed: int) -> dict[str, str]:
    rng = random.Random(seed)
    return {place: str(rng.randrange(1000, 9999)) for place in _facts.PLACES}


def _add_codes(memory: Memory, codes: dict[str, str]) -> None:
    facts = [f"The door code of {place} is {code}." for place, code in codes.items()]
    memory.add([{"role": "user", "content": fact} for fact in facts], user_id=USER, infer=False)
    if memory.wait_until_ready(timeout_s=BUILD_TIMEOUT_S, builds=True).failed:
        raise SystemExit("memories could not be built")


def _measure(
    sidecar: Sidecar, memory: Memory, codes: dict[str, str], options: argparse.Namespace
) -> dict[Arm, list[Sample]]:
    rng, every = random.Random(options.seed), arms(quick=options.quick)
    rounds, turns = (QUICK_ROUNDS, QUICK_TURNS) if options.quick else (ROUNDS, TURNS)
    found: dict[Arm, list[Sample]] = {arm: [] for arm in every}
    with sidecar.engine_http() as engine:
        for number in range(rounds):
            talks = [_begin(arm, number, codes, rng) for arm in every]
            for turn in range(turns + 1):
                _output.note(f"conversation {number + 1}, turn {HISTORY_TURNS + turn + 1}")
                for talk in rng.sample(talks, len(talks)):
                    sample = _turn(memory, engine, talk)
                    if turn:  # the first one meets a history that no cache holds
                        found[talk.arm].append(sample)
    return found


def _begin(arm: Arm, number: int, codes: dict[str, str], rng: random.Random) -> Conversation:
    """A history of ten turns that no other conversation shares."""
    named = f"{SYSTEM} This is conversation {number} of {arm.template}, {arm.memory}."
    messages = [{"role": "system", "content": f"{named} {arm.position} {arm.prepared}"}]
    facts = _facts.facts(3 * HISTORY_TURNS, rng.randrange(10**6))
    for turn in range(HISTORY_TURNS):
        told, asked, said = facts[3 * turn : 3 * turn + 3]
        messages += [
            {"role": "user", "content": f"Note this: {told} What do you make of it? {asked}"},
            {"role": "assistant", "content": f"I have noted it. As I understand it: {said}"},
        ]
    return Conversation(arm, _questions(codes, rng), messages)


def _questions(codes: dict[str, str], rng: random.Random) -> Iterator[tuple[str, str]]:
    while True:
        for place in rng.sample(sorted(codes), len(codes)):
            yield f"What is the door code of {place}? Begin with the number.", codes[place]


def _turn(memory: Memory, engine: httpx.Client, talk: Conversation) -> Sample:
    arm, (question, code) = talk.arm, next(talk.questions)
    talk.messages.append({"role": "user", "content": question})
    _wait_idle(engine)
    first, said, usage = None, "", Usage()
    scope = {"user_id": USER, "k": ITEMS, "query": question}
    started_at = time.perf_counter()
    with memory.chat(
        talk.messages,
        memory=scope | _how(arm),
        stream=True,
        stream_options={"include_usage": True},
        tools=tools(),
        tool_choice="none",
        chat_template=TEMPLATES[arm.template],
        max_tokens=ANSWER_TOKENS,
        temperature=0,
    ) as chunks:
        for chunk in chunks:
            for choice in chunk.choices:
                if first is None and (choice.delta.content or choice.finish_reason):
                    first = (time.perf_counter() - started_at) * 1e3
                said += choice.delta.content or ""
            usage = chunk.usage or usage
        report = chunks.report()
    if first is None:
        raise SystemExit("an answer came without a token")
    talk.messages.append({"role": "assistant", "content": said})
    sources = _sources(report, usage)
    sample = Sample(first, *sources, code in said, report.position or "", report.mode)
    return _checked(sample, arm)


def _sources(report: MemoryReport, usage: Usage) -> tuple[int, int, int]:
    """Tokens from vLLM's own cache, from the bank, and computed. Text has no report of them."""
    if report.tokens is not None:
        return report.tokens.native, report.tokens.injected, report.tokens.prefilled
    if not usage.prompt_tokens:
        raise SystemExit("an answer came without a report and without its usage")
    native = int((usage.prompt_tokens_details or {}).get("cached_tokens") or 0)
    return native, 0, usage.prompt_tokens - native


def _how(arm: Arm) -> dict[str, Any]:
    injects = arm.memory == "injected"
    return {"position": arm.position, "inject": injects, "prepare": arm.prepared}


def _checked(sample: Sample, arm: Arm) -> Sample:
    """Raises SystemExit if a turn was not what its arm says."""
    if (sample.mode, sample.position) != (arm.memory, arm.position):
        raise SystemExit(f"a turn of {arm} was {sample}")
    return sample


def _wait_idle(engine: httpx.Client) -> None:
    """Until nothing is prepared any more: a user takes longer to read than that."""
    deadline = time.monotonic() + IDLE_S
    names = ("vllm:num_requests_running", "vllm:num_requests_waiting{")
    calm = 0
    while calm < CALM:
        lines = engine.get("/metrics").text.splitlines()
        busy = sum(float(line.split()[-1]) for line in lines if line.startswith(names))
        calm = 0 if busy else calm + 1
        if time.monotonic() > deadline:
            raise SystemExit(f"the engine was not idle for {IDLE_S} s")
        time.sleep(0.05)


def row(arm: Arm, samples: Sequence[Sample]) -> _output.Row:
    """One row: medians over an arm's turns."""

    def median(name: str) -> float:
        return float(statistics.median(getattr(sample, name) for sample in samples))

    tokens = [s.native + s.injected + s.prefilled for s in samples]
    return {
        "template": arm.template,
        "memory": arm.memory,
        "position": arm.position,
        "prepared": arm.prepared,
        "tokens": round(statistics.median(tokens)),
        "native": round(median("native")),
        "injected": round(median("injected")),
        "prefilled": round(median("prefilled")),
        "ttft_ms": round(median("ms"), 1),
        "right": round(sum(s.is_right for s in samples) / len(samples), 2),
        "samples": len(samples),
    }


if __name__ == "__main__":
    main()
