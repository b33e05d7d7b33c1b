"""`/metrics`: the names that dashboards are made of, moving when something happens."""

import time
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from inferscale import Memory

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]

MODEL = {"model_name": "smollm2-135m-instruct"}
SHORT: dict[str, Any] = {"temperature": 0, "max_tokens": 3}


class Scrape:
    """One scrape."""

    def __init__(self, http: httpx.Client) -> None:
        response = http.get("/metrics", headers={"accept": "text/plain"})
        assert response.status_code == 200
        self.text = response.text
        self._values = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(response.text)
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self._values["inferscale_" + name, frozenset(labels.items())]


def test_everything_moves(http: httpx.Client, memory: Memory, noor: str, user: str) -> None:
    memory.wait_until_ready(60, builds=True)
    before = Scrape(http)
    for n in range(4):
        memory.add(f"Lamp {n} of {user} is lit.", user_id=user, infer=False)
    memory.wait_until_ready(60, builds=True)
    memory.recall("lamp", user_id=user)
    question = {"memory": {"user_id": noor, "query": "organs and pears", "k": 20}}
    memory.chat("What?", memory=question["memory"], **SHORT)
    memory.chat("What?", memory={**question["memory"], "inject": False}, **SHORT)
    with memory.chat("What else?", memory=question["memory"], stream=True, **SHORT) as stream:
        assert list(stream)
        stream.report()
    injected = {"mode": "injected", **MODEL}
    deadline = time.monotonic() + 10  # a stream is counted after its client has its last token
    while True:
        after = Scrape(http)
        if grew(before, after, "time_to_first_token_seconds_count", **injected) >= 1:
            break
        assert time.monotonic() < deadline, "the stream was not counted"
        time.sleep(0.1)
    check_growth(before, after)


def grew(before: Scrape, after: Scrape, name: str, **labels: str) -> float:
    return after(name, **labels) - before(name, **labels)


def check_growth(before: Scrape, after: Scrape) -> None:
    def grew_by(name: str, **labels: str) -> float:
        return grew(before, after, name, **labels)

    assert grew_by("memory_operations_total", operation="add", outcome="ok") == 4
    assert grew_by("memory_operation_duration_seconds_count", operation="add") == 4
    assert grew_by("recall_stage_duration_seconds_count", stage="search") >= 1
    assert grew_by("recall_items_count") >= 1
    assert grew_by("http_requests_total", method="POST", route="/v1/memories", code="200") == 4
    assert grew_by("builds_total", outcome="ok", **MODEL) >= 1
    assert grew_by("builds_total", outcome="failed", **MODEL) == 0
    assert grew_by("add_to_injectable_seconds_count", **MODEL) == 4
    assert grew_by("prompt_tokens_total", source="injected", **MODEL) > 0
    assert grew_by("prompt_tokens_total", source="prefilled", **MODEL) > 0
    assert grew_by("fallback_requests_total", reason="not_requested", **MODEL) == 1
    assert grew_by("chat_duration_seconds_count", mode="injected", **MODEL) >= 1
    assert grew_by("chat_duration_seconds_count", mode="text", **MODEL) == 1
    assert (after("engine_up"), after("injection_enabled")) == (1, 1)
    assert after("handles_active") >= 1
    assert after("build_queue_items") == 0


def test_nothing_of_a_tenant_becomes_a_label(http: httpx.Client, memory: Memory, user: str) -> None:
    added = memory.add("Only I know this.", user_id=user, infer=False)
    handle = memory.recall("know", user_id=user)
    http.get(f"/v1/memories/{added.results[0].id}")
    http.get(f"/v1/made-up/{user}")
    text = Scrape(http).text
    for private in (user, handle.id, added.results[0].id, "Only I know"):
        assert private not in text
