"""`wait_until_ready`: what is waited for, for how long, and what is said when it was not enough."""

import httpx
import pytest

from inferscale import AuthenticationError, BuildStatus, NotReadyError
from inferscale._exchange import Send, wait_until_ready
from inferscale.errors import APIConnectionError, UnavailableError

DONE = {"queued": 0, "building": 0, "ready": 3, "failed": 1}


class World:
    """Answers a flow and keeps its clock: a step costs 10 ms, a pause what it says."""

    def __init__(self, ready, builds):
        self.answers = {"/ready": list(ready), "/v1/builds": list(builds)}
        self.now_s = 0.0
        self.pauses: list[float] = []
        self.patience: list[float] = []

    def run(self, **options):
        flow = wait_until_ready(clock=lambda: self.now_s, **options)
        outcome = None
        try:
            while True:
                step = flow.send(outcome)
                outcome = None
                if isinstance(step, Send):
                    self.patience.append(step.operation.timeout_s)
                    outcome = self._answer(step.operation.path)
                else:
                    self.pauses.append(step.seconds)
                    self.now_s += step.seconds
        except StopIteration as stop:
            return stop.value

    def _answer(self, path):
        self.now_s += 0.01
        answers = self.answers[path]
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        request = httpx.Request("GET", f"http://s.test{path}")
        if isinstance(answer, int):
            error = {"error": {"message": "model is loading", "code": "c"}}
            return httpx.Response(answer, json=error, request=request)
        if isinstance(answer, Exception):
            return answer
        return httpx.Response(200, json=answer, request=request)


def test_not_there_then_starting_then_ready():
    world = World([APIConnectionError("refused"), 503, {}], [DONE])
    assert world.run(timeout_s=10, builds=False) == BuildStatus(**DONE)
    assert len(world.pauses) == 2


def test_builds_are_waited_for_only_if_asked():
    busy = {**DONE, "queued": 2}
    assert World([{}], [busy, DONE]).run(timeout_s=10, builds=False).queued == 2
    world = World([{}], [busy, {**DONE, "building": 1}, DONE])
    assert world.run(timeout_s=10, builds=True).is_done and len(world.pauses) == 2


def test_the_time_is_kept_and_the_reason_told():
    world = World([503], [DONE])
    with pytest.raises(NotReadyError, match="model is loading") as caught:
        world.run(timeout_s=5, builds=False)
    assert 5 <= world.now_s < 5.2 and max(world.pauses) <= 0.5
    assert isinstance(caught.value.__cause__, UnavailableError)
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(NotReadyError, match="2 builds are queued and 1 running"):
        World([{}], [{**DONE, "queued": 2, "building": 1}]).run(timeout_s=1, builds=True)


def test_no_probe_may_outlast_the_wait():
    world = World([503], [DONE])
    with pytest.raises(NotReadyError):
        world.run(timeout_s=7, builds=False)
    assert world.patience[0] == 5 and world.patience[-1] <= 0.5


def test_what_waiting_cannot_mend_is_raised_at_once():
    world = World([{}], [401])
    with pytest.raises(AuthenticationError):
        world.run(timeout_s=10, builds=True)
    assert not world.pauses


async def test_both_clients_wait(sidecar, memory):
    sidecar.reply({"status": "ok"})
    sidecar.reply(DONE)
    assert (await memory.wait_until_ready(timeout_s=1, builds=True)).ready == 3
    assert [request.url.path for request in sidecar.requests] == ["/ready", "/v1/builds"]
