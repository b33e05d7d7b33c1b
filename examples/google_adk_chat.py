"""An app in Google ADK with memory: two sessions, and the second one knows what the first was told.

    pip install 'inferscale-memory[google-adk]'
    inferscale-sidecar run --model demo -- python examples/google_adk_chat.py

A session's events hold nothing of the memory: it is injected as keys and values into each request.
"""

import argparse
import asyncio
import uuid

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from google.genai import types

from inferscale import Memory
from inferscale_adk import InferScaleLlm, InferScalePlugin

FIRST = (
    "My bicycle is a green Peugeot from 1978.",
    "I live in Oslo, near the harbour.",
    "I can only come on Saturdays.",
    "Last year you changed my chain.",
)
SECOND = "What is the colour of my bicycle?"


async def ask(runner: InMemoryRunner, text: str, user: str, session: str) -> str:
    message = types.Content(role="user", parts=[types.Part(text=text)])
    answer = ""
    async for event in runner.run_async(user_id=user, session_id=session, new_message=message):
        if event.is_final_response() and event.content:
            answer = "".join(part.text or "" for part in event.content.parts or ())
    return answer.strip()


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"customer-{uuid.uuid4().hex[:8]}")
    user = parser.parse_args().user

    with Memory() as memory:
        memory.wait_until_ready()
        agent = LlmAgent(
            name="support",
            model=InferScaleLlm(temperature=0, max_tokens=48),
            instruction="Answer in one short sentence.",
        )
        app = App(name="shop", root_agent=agent, plugins=[InferScalePlugin(client=memory)])
        async with InMemoryRunner(app=app) as runner:
            runner.auto_create_session = True
            for text in FIRST:
                print(f"customer: {text}\nagent:    {await ask(runner, text, user, 'one')}")
            memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it

            print("\nAnother session, another day:")
            print(f"customer: {SECOND}\nagent:    {await ask(runner, SECOND, user, 'two')}")
        memory.delete_all(user_id=user)


if __name__ == "__main__":
    asyncio.run(main())
