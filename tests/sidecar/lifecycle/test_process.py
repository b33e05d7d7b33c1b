"""The sidecar as a process: start, serve, drain, die, and who dies with it.

vLLM and the embedder's library are stand-ins, so that a start takes seconds.
"""

import asyncio
import json
import os
import signal
import socket
import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

FAKE = Path(__file__).with_name("fake_vllm.py")
STAND_INS = Path(__file__).with_name("stand_ins")
START_S = 60


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def until_gone(pid: int) -> None:
    async with asyncio.timeout(10):
        while is_alive(pid):
            await asyncio.sleep(0.05)


@dataclass
class Sidecar:
    """A sidecar process and what it said when it was ready."""

    process: asyncio.subprocess.Process
    engine_pid_file: Path
    ready: dict[str, Any] = field(default_factory=dict)

    @property
    def engine_pid(self) -> int:
        return int(self.engine_pid_file.read_text())

    async def wait_ready(self) -> None:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), START_S)
        self.ready = json.loads(line)

    async def finish(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 30)


class Starter:
    """Starts sidecars in one home folder."""

    def __init__(self, tmp_path: Path) -> None:
        self._home = tmp_path
        self._python = tmp_path / "python"
        self._python.write_text(f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
        self._python.chmod(self._python.stat().st_mode | stat.S_IXUSR)
        self.started: list[Sidecar] = []

    async def __call__(self, *flags: str, **env: str) -> Sidecar:
        pid_file = self._home / f"engine{len(self.started)}.pid"
        settings = ("inject.enabled=false", f"engine.python={self._python}", "engine.model=fake")
        sets = [word for setting in settings for word in ("--set", setting)]
        argv = [sys.executable, "-m", "inferscale_sidecar.cli", "start", "--json", "--port", "0"]
        process = await asyncio.create_subprocess_exec(
            *(*argv, *sets, *flags),
            stdout=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "INFERSCALE_HOME": str(self._home),
                "FAKE_PID_FILE": str(pid_file),
                "PYTHONPATH": os.pathsep.join([str(STAND_INS), *sys.path]),
                **env,
            },
        )
        self.started.append(Sidecar(process, pid_file))
        return self.started[-1]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    for sidecar in starter.started:
        if sidecar.process.returncode is None:
            sidecar.process.kill()
            await sidecar.process.wait()
        if sidecar.engine_pid_file.exists():
            await until_gone(sidecar.engine_pid)


async def test_documents_and_mcp_are_served(start: Starter) -> None:
    sidecar = await start("--set", "mcp.user_id=ada")
    await sidecar.wait_ready()
    headers = {"accept": "application/json, text/event-stream"}
    tool = {"name": "add_memory", "arguments": {"text": "Ada likes tea."}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    item = {"namespace": ["a"], "key": "k", "value": {"n": 1}}
    async with httpx.AsyncClient(base_url=sidecar.ready["url"], timeout=20) as http:
        assert (await http.put("/v1/store/items", json=item)).status_code == 204
        answer = await http.post("/mcp", json=call, headers=headers)
        assert answer.json()["result"]["structuredContent"]["event"] == "ADD"
        listed = (await http.get("/v1/memories?user_id=ada")).json()
        assert [each["memory"] for each in listed["results"]] == ["Ada likes tea."]
    sidecar.process.send_signal(signal.SIGTERM)
    assert await sidecar.finish() == 0


async def test_it_serves_drains_and_stops_its_engine(start: Starter) -> None:
    """A request that runs when SIGTERM comes is answered; then nothing is left."""
    sidecar = await start(FAKE_CHAT_S="1.5")
    await sidecar.wait_ready()
    assert sidecar.ready["model"] == "fake"
    async with httpx.AsyncClient(base_url=sidecar.ready["url"], timeout=20) as http:
        assert (await http.get("/ready")).json()["parts"]["engine"] == "ready"
        added = {"messages": "Ada likes tea.", "user_id": "ada", "infer": False}
        assert (await http.post("/v1/memories", json=added)).status_code == 200
        chat = {"model": "fake", "messages": [{"role": "user", "content": "hi"}]}
        slow = asyncio.create_task(http.post("/v1/chat/completions", json=chat))
        await asyncio.sleep(0.5)
        sidecar.process.send_signal(signal.SIGTERM)
        assert (await slow).status_code == 200
    assert await sidecar.finish() == 0
    await until_gone(sidecar.engine_pid)


async def test_without_an_engine_it_remembers_and_refuses_to_chat(start: Starter) -> None:
    sidecar = await start("--no-engine")
    await sidecar.wait_ready()
    assert (sidecar.ready["model"], sidecar.ready["injection"].split(":")[0]) == ("none", "off")
    async with httpx.AsyncClient(base_url=sidecar.ready["url"], timeout=20) as http:
        ready = (await http.get("/ready")).raise_for_status().json()
        assert ready["parts"]["engine"] == "ready: there is no engine (engine.enabled is false)"
        added = {"messages": "Ada likes tea.", "user_id": "ada", "infer": False}
        added_as = (await http.post("/v1/memories", json=added)).json()["results"][0]
        assert added_as["kv_state"] == "off"
        recalled = await http.post("/v1/recall", json={"query": "tea?", "user_id": "ada"})
        assert "Ada likes tea." in recalled.json()["text"]
        failed = await http.post("/v1/memories", json={**added, "messages": "x", "infer": True})
        assert failed.json()["results"][0]["status"] == "raw"
        chat = {"messages": [{"role": "user", "content": "hi"}]}
        refused = await http.post("/v1/chat/completions", json=chat)
        assert refused.status_code == 503
        assert "without --no-engine" in refused.json()["error"]["message"]
        assert (await http.get("/v1/models")).status_code == 503
        assert "inferscale_engine_up 0.0" in (await http.get("/metrics")).text
    sidecar.process.send_signal(signal.SIGTERM)
    assert await sidecar.finish() == 0
    assert not sidecar.engine_pid_file.exists()


async def test_interrupt_ends_with_130_also_while_the_engine_starts(start: Starter) -> None:
    sidecar = await start("--set", "engine.args=--slow")
    async with asyncio.timeout(START_S):
        while not sidecar.engine_pid_file.exists():
            await asyncio.sleep(0.05)
    sidecar.process.send_signal(signal.SIGINT)
    assert await sidecar.finish() == 130
    await until_gone(sidecar.engine_pid)


async def test_a_killed_sidecar_takes_its_engine_along_and_keeps_what_it_acknowledged(
    start: Starter,
) -> None:
    sidecar = await start()
    await sidecar.wait_ready()
    async with httpx.AsyncClient(base_url=sidecar.ready["url"]) as http:
        added = {"messages": "Ada likes tea.", "user_id": "ada", "infer": False}
        memory_id = (await http.post("/v1/memories", json=added)).json()["results"][0]["id"]
    engine_pid = sidecar.engine_pid
    sidecar.process.kill()
    await until_gone(engine_pid)

    again = await start()
    await again.wait_ready()
    async with httpx.AsyncClient(base_url=again.ready["url"]) as http:
        found = await http.get(f"/v1/memories/{memory_id}")
        assert found.json()["memory"] == "Ada likes tea."


async def test_a_killed_engine_comes_back_at_the_same_address(start: Starter) -> None:
    sidecar = await start("--set", "engine.restart_backoff_s=0.1")
    await sidecar.wait_ready()
    first = sidecar.engine_pid
    os.kill(first, signal.SIGKILL)
    async with httpx.AsyncClient(base_url=sidecar.ready["url"]) as http, asyncio.timeout(20):
        while (await http.get("/ready")).json()["parts"].get("restarts") != "1":
            await asyncio.sleep(0.05)
        while (await http.get("/ready")).status_code != 200:
            await asyncio.sleep(0.05)
        assert (await http.get("/v1/models")).status_code == 200
    assert sidecar.engine_pid != first


async def test_a_taken_port_is_a_usage_error_before_anything_is_started(start: Starter) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        sidecar = await start("--port", str(taken.getsockname()[1]))
        await sidecar.wait_ready()
        assert await sidecar.finish() == 2
    assert sidecar.ready["code"] == "config_error"
    assert "Address already in use" in sidecar.ready["message"]
    assert not sidecar.engine_pid_file.exists()


async def test_an_engine_that_cannot_start_ends_with_3_and_its_log(start: Starter) -> None:
    sidecar = await start("--set", "engine.python=/bin/false", "--set", "engine.max_restarts=0")
    await sidecar.wait_ready()
    assert await sidecar.finish() == 3
    assert sidecar.ready["code"] == "engine_unavailable"
    assert "exit code 1" in sidecar.ready["message"]
