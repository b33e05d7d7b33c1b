"""What the sidecar adds to requests without memory, against calling vLLM directly.

Rows: `path` (`chat`, `chat streaming`, `completions`, `models`), `direct_ms` and `sidecar_ms`:
medians of the time until the answer is complete, with `max_tokens=1`, one kept-alive connection and
the same client for both. Each request is sent to one and then to the other, in random order.
Further fields: `added_ms`, the median of the differences within such pairs, `added_p95_ms`, and
`samples`.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

import httpx
from benchmarks import _facts, _output
from benchmarks._sidecar import add_flags, started

QUICK_PAIRS, PAIRS, WARM_UP = 100, 400, 10
_PATHS = {
    "chat": "/v1/chat/completions",
    "chat streaming": "/v1/chat/completions",
    "completions": "/v1/completions",
    "models": "/v1/models",
}

Pair = tuple[float, float]
"""Milliseconds directly, and through the sidecar."""


def main() -> None:
    """Measure and print."""
    parser = _output.parser(__doc__ or "")
    add_flags(parser)
    options = parser.parse_args()
    machine = _output.machine()
    pairs = QUICK_PAIRS if options.quick else PAIRS
    with (
        started(options) as sidecar,
        httpx.Client(base_url=sidecar.engine_url, timeout=300, trust_env=False) as direct,
        httpx.Client(base_url=sidecar.url, timeout=300, trust_env=False) as through,
    ):
        _output.note(f"{pairs} pairs of each of {len(_PATHS)} paths")
        found = _measure((direct, through), sidecar.model, pairs, options.seed)
    _output.show("overhead", machine, rows(found), as_json=options.json)


def _measure(
    clients: Sequence[httpx.Client], model: str, pairs: int, seed: int
) -> dict[str, list[Pair]]:
    rng, questions = random.Random(seed), _facts.questions(seed)
    found: dict[str, list[Pair]] = {path: [] for path in _PATHS}
    for number in range(WARM_UP + pairs):
        for path, kept in found.items():
            content = _content(path, model, next(questions))
            times = [0.0, 0.0]
            for at in rng.sample(range(2), 2):
                times[at] = _timed(clients[at], _PATHS[path], content)
            if number >= WARM_UP:
                kept.append((times[0], times[1]))
    return found


def _content(path: str, model: str, question: str) -> bytes | None:
    body: dict[str, Any] = {"model": model, "max_tokens": 1, "temperature": 0}
    match path:
        case "models":
            return None
        case "completions":
            body["prompt"] = question
        case _:
            body["messages"] = [{"role": "user", "content": question}]
            body["stream"] = path == "chat streaming"
    return json.dumps(body).encode()


def _timed(client: httpx.Client, path: str, content: bytes | None) -> float:
    method = "GET" if content is None else "POST"
    headers = {"content-type": "application/json"}
    started_at = time.perf_counter()
    with client.stream(method, path, content=content, headers=headers) as answer:
        answer.read()
    elapsed_ms = (time.perf_counter() - started_at) * 1e3
    if answer.status_code != 200:
        raise SystemExit(f"{answer.url} answered {answer.status_code}: {answer.text[:500]}")
    return elapsed_ms


def rows(found: dict[str, list[Pair]]) -> list[dict[str, Any]]:
    """Medians of each path."""
    return [_row(path, pairs) for path, pairs in found.items()]


def _row(path: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    added = [through - direct for direct, through in pairs]
    return {
        "path": path,
        "direct_ms": round(statistics.median(direct for direct, _ in pairs), 2),
        "sidecar_ms": round(statistics.median(through for _, through in pairs), 2),
        "added_ms": round(statistics.median(added), 2),
        "added_p95_ms": round(statistics.quantiles(added, n=20)[-1], 2),
        "samples": len(pairs),
    }


if __name__ == "__main__":
    main()
