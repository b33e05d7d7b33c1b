"""A support agent in LangChain with memory: two conversations, days apart.

Run it against a sidecar that is already running: `inferscale-sidecar start`, then
`pip install 'inferscale-memory[langchain]'` and `python examples/langchain_agent.py`.
What the agent knows of the customer in the second conversation comes from the first one. It is
injected as keys and values; the conversation itself holds nothing but its own messages.

`--tools` gives the agent two: the shop's diary, and a search in the customer's memory. The model
needs to be able to call tools (the demo model is too small), and vLLM to know how it writes calls:
`inferscale-sidecar start -- --enable-auto-tool-choice --tool-call-parser hermes`.
"""

import argparse
import uuid

from langchain.agents import create_agent
from langchain.agents.middleware import AgentState
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from inferscale import Memory
from inferscale_langchain import ChatInferScale, InferScaleMiddleware, create_memory_tools

SYSTEM = "You help customers of a bicycle shop. Answer in one short sentence."
FIRST = (
    "My bicycle is a green Peugeot from 1978.",
    "I live in Oslo, near the harbour.",
    "I can only come on Saturdays.",
    "Last year you changed my chain.",
    "My name is Maya.",
)
SECOND = "What is the colour of my bicycle?"


def free_times(day: str) -> str:
    """When the workshop has time on a day of the week, such as Saturday."""
    return {"saturday": "10:00 and 13:30"}.get(day.strip().lower(), "fully booked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"customer-{uuid.uuid4().hex[:8]}")
    parser.add_argument("--tools", action="store_true", help="give the agent tools")
    given = parser.parse_args()
    user = given.user

    with Memory() as memory:
        memory.wait_until_ready()
        agent = create_agent(
            ChatInferScale(temperature=0, max_tokens=32),
            tools=[free_times, *create_memory_tools(memory)] if given.tools else [],
            system_prompt=SYSTEM,
            middleware=[InferScaleMiddleware(memory)],
            checkpointer=InMemorySaver(),
        )

        def ask(text: str, thread: str) -> AgentState:
            return agent.invoke(
                {"messages": [HumanMessage(text)]},
                context={"user_id": user},
                config={"configurable": {"thread_id": thread}},
            )

        print("First conversation:")
        for text in FIRST:
            print(f"  customer: {text}")
            print(f"  agent:    {ask(text, 'one')['messages'][-1].text.strip()}")
        memory.wait_until_ready(timeout_s=120, builds=True)  # only so that the demo can show it

        print("\nSecond conversation, another thread:")
        answer = ask(SECOND, "two")["messages"][-1]
        print(f"  customer: {SECOND}\n  agent:    {answer.text.strip()}")
        report = answer.response_metadata["memory"]
        print(f"\n{report['items']} memories, {report['mode']}: {report['tokens']}")
        memory.delete_all(user_id=user)


if __name__ == "__main__":
    main()
