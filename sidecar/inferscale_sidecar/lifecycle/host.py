"""The engine as the settings want it: a vLLM of our own under supervision, or an attached one.

Owns the choice, the secret and the port. Does not own the parts that talk to it (`parts`).
"""

import secrets
import socket
from dataclasses import dataclass

from inferscale_sidecar.config import Config
from inferscale_sidecar.engine.absent import Absence, AbsentEngine
from inferscale_sidecar.engine.attach import Attachment
from inferscale_sidecar.engine.client import EngineClient
from inferscale_sidecar.engine.command import ServedModel, detect_device, vllm_command
from inferscale_sidecar.engine.health import Probe
from inferscale_sidecar.engine.process import GroupLauncher
from inferscale_sidecar.engine.supervisor import Policy, Supervisor
from inferscale_sidecar.errors import ConfigError, EngineUnavailable, SidecarError


@dataclass(frozen=True)
class EngineHost:
    """An engine's life and the way to talk to it."""

    board: Supervisor | Attachment | Absence
    client: EngineClient | AbsentEngine


def attach(config: Config) -> EngineHost:
    """An engine that runs elsewhere.

    Raises:
        ConfigError: no secret, without which its connector refuses us.
    """
    if config.engine.secret is None:
        raise ConfigError(
            "attaching needs the secret that vLLM was started with; set INFERSCALE_ENGINE_SECRET "
            "to the same value for both",
            param="engine.secret",
        )
    client = EngineClient(config.engine.url, config.engine.secret.get_secret_value())
    timeout_s = config.engine.start_timeout_s
    board = Attachment(config.engine.url, probe_of(client), start_timeout_s=timeout_s)
    return EngineHost(board, client)


def do_without() -> EngineHost:
    """No engine."""
    return EngineHost(Absence(), AbsentEngine())


def supervise(config: Config, model: ServedModel) -> EngineHost:
    """An engine of our own, not started yet."""
    engine = config.engine
    secret = engine.secret.get_secret_value() if engine.secret else secrets.token_hex(32)
    port = engine.port or free_port()
    command = vllm_command(config, model, device=detect_device(), port=port, secret=secret)
    client = EngineClient(f"http://127.0.0.1:{port}", secret)
    policy = Policy(
        start_timeout_s=engine.start_timeout_s,
        stop_timeout_s=engine.stop_timeout_s,
        max_restarts=engine.max_restarts,
        backoff_s=engine.restart_backoff_s,
    )
    return EngineHost(Supervisor(command, probe_of(client), GroupLauncher(), policy), client)


def probe_of(client: EngineClient) -> Probe:
    """Whether the engine and its connector answer; also refreshes what the client knows."""

    async def answers() -> bool:
        try:
            await client.status()
        except EngineUnavailable:
            return False
        except SidecarError:
            return True  # it answers; that it cannot inject is for others to judge
        return True

    return answers


def free_port() -> int:
    """A port of loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
