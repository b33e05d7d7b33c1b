"""Two agents behind different system prompts share one user's memories.

    inferscale-sidecar run --model demo -- python examples/two_agents.py

What the user tells the cook, the travel agent knows. Each memory was encoded once, and its KV is
injected behind both prompts. With `agent_id` an agent could have memories of its own besides.
"""

import argparse
import uuid

from inferscale import Memory, OpenAI

PROMPTS = {
    "cook": "You are a cook. Answer in one short sentence.",
    "travel agent": "You arrange journeys for a travel agency in Lisbon. Answer in one sentence.",
}
TOLD = (
    "I do not eat mushrooms.",
    "My daughter is called Ines.",
    "I get sick on boats.",
    "I like trains.",
    "My kitchen has no oven.",
    "In August I have three weeks off.",
    "My brother lives in Porto.",
    "I drink tea in the morning.",
)
ASKED = {"cook": "What do I not eat?", "travel agent": "Where does my brother live?"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--user", default=f"shared-{uuid.uuid4().hex[:8]}")
    user = parser.parse_args().user
    with Memory() as memory, OpenAI(memory={"user_id": user}) as client:
        memory.wait_until_ready()
        for fact in TOLD:
            memory.add(fact, user_id=user, infer=False)
        memory.wait_until_ready(timeout_s=120, builds=True)
        for agent, question in ASKED.items():
            answer = client.chat.completions.create(
                model="",  # the one that is served
                messages=[
                    {"role": "system", "content": PROMPTS[agent]},
                    {"role": "user", "content": question},
                ],
                temperature=0,
                max_tokens=32,
            )
            report = (answer.model_extra or {})["memory"]
            print(
                f"{agent}, asked {question!r}: {(answer.choices[0].message.content or '').strip()}"
            )
            print(f"    {report['items']} memories, {report['mode']}: {report['tokens']}")
        memory.delete_all(user_id=user)


if __name__ == "__main__":
    main()
