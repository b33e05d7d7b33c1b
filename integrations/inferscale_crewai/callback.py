"""`RememberTask`: what a crew was asked is remembered when it has answered.

Owns which part of a task is written.
"""

from collections.abc import Mapping
from typing import Any

from inferscale import Memory
from inferscale_shared.clients import Clients
from inferscale_shared.turn import Remember, TurnWriter


class RememberTask:
    """For `Crew(task_callback=RememberTask({"user_id": …}))`, or `Task(callback=…)`.

    Args:
        memory: a scope such as `{"user_id": "alice"}`.
        client: default: one from the environment.
        remember: "user" writes the task's description, with the crew's inputs in it; "turn" the
            task's output too.
        metadata: goes with everything that is written.
        raise_write_errors: True: an error of the sidecar ends the crew. False: it is logged.

    Raises:
        InvalidArgumentError: no id in `memory`, or an unknown `remember`.
    """

    def __init__(
        self,
        memory: Mapping[str, Any],
        *,
        client: Memory | None = None,
        remember: Remember = "user",
        metadata: Mapping[str, Any] | None = None,
        raise_write_errors: bool = False,
    ) -> None:
        self._writer = TurnWriter(
            Clients(client, None),
            memory,
            remember=remember,
            metadata=metadata,
            raise_write_errors=raise_write_errors,
        )

    def __call__(self, output: Any) -> None:
        """Called by CrewAI with the task's output."""
        self._writer.write([output.description], output.raw)
