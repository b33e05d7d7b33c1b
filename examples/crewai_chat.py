"""An agent of CrewAI with memory: a crew that is set up anew knows what the first one was told.

    pip install 'inferscale-memory[crewai]'
    inferscale-sidecar run --model demo -- python examples/crewai_chat.py

The prompts hold nothing of the memory: it is injected as keys and values into each request.
"""

import argparse
import uuid

from crewai import Agent, Crew, Task

from inferscale import Memory
from inferscale_crewai import InferScaleLLM, RememberTask

FIRST = (
    "My bicycle is a green Peugeot from 1978.",
    "I live in Oslo, near the harbour.",
    "I can only come on Saturdays.",
    "Last year you changed my chain.",
)
SECOND = "What is the colour of my bicycle?"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"customer-{uuid.uuid4().hex[:8]}")
    scope = {"user_id": parser.parse_args().user}

    with Memory() as memory:
        memory.wait_until_ready()

        def ask(text: str) -> str:
            agent = Agent(
                role="assistant",
                goal="answer",
                backstory="Answer in one short sentence.",
                llm=InferScaleLLM(scope, temperature=0, max_tokens=48),
            )
            wanted = "a short answer to the question"
            task = Task(description=text, expected_output=wanted, agent=agent)
            remember = RememberTask(scope, client=memory)
            crew = Crew(agents=[agent], tasks=[task], task_callback=remember)
            return crew.kickoff().raw.strip()

        for text in FIRST:
            print(f"customer: {text}\nagent:    {ask(text)}")
        memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it

        print("\nAnother crew, another day:")
        print(f"customer: {SECOND}\nagent:    {ask(SECOND)}")
        memory.delete_all(**scope)


if __name__ == "__main__":
    main()
