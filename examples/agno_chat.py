"""An agent of Agno with memory: each line is a session of its own.

    inferscale-sidecar run --model demo -- python examples/agno_chat.py

It needs `pip install 'inferscale-memory[agno]'`. No history is passed from line to line: what the
model knows of earlier lines, it knows from memory, injected as keys and values.
Type lines, or give them: `--say`.
"""

import argparse
import sys
import uuid

from agno.agent import Agent

from inferscale import Memory
from inferscale_agno import InferScaleModel

AGENT = Agent(
    model=InferScaleModel(temperature=0, max_tokens=32),
    instructions="Answer in one short sentence.",
    telemetry=False,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"chat-{uuid.uuid4().hex[:8]}")
    parser.add_argument("--say", action="append", help="a line; may be given several times")
    given = parser.parse_args()
    with Memory() as memory:
        for line in given.say or (line.strip() for line in sys.stdin):
            memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it
            run = AGENT.run(line, user_id=given.user)
            print(f"you:   {line}\nmodel: {str(run.content).strip()}")
            if report := (run.model_provider_data or {}).get("model_extra", {}).get("memory"):
                print(f"       ({report['items']} memories, {report['mode']})")


if __name__ == "__main__":
    main()
