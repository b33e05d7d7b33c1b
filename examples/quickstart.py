"""Remember fifty facts about a person, ask about them, and see what injection saves.

Run it with `make demo`, or against a sidecar of yours: `python examples/quickstart.py`
(`INFERSCALE_BASE_URL` says where it is).
"""

import argparse
import statistics
import time

from inferscale import Memory

USER = "quickstart-maya"
FACTS = """\
Maya Okafor is a marine biologist.
Maya lives in a small flat in Lisbon.
Maya has a grey cat called Pixel.
Maya was born in Accra in 1991.
Maya plays the cello in an amateur orchestra.
Maya is allergic to peanuts.
Maya drives an old green van.
Maya's sister Abena is a pilot.
Maya studied in Bergen for four years.
Maya speaks English, Twi and Portuguese.
Maya's favourite dish is caldo verde.
Maya drinks her coffee without sugar.
Maya's research is about seagrass meadows.
Maya's boss is called Professor Tavares.
Maya is writing a paper on carbon in seagrass.
Maya's birthday is on the ninth of March.
Maya swims in the sea every Sunday morning.
Maya broke her left wrist in 2019.
Maya reads detective novels on the train.
Maya's neighbour Rui waters her plants.
Maya wants to learn to surf this summer.
Maya's laptop has a cracked screen.
Maya pays rent on the first of each month.
Maya prefers trains to planes.
Maya's best friend Ingrid lives in Oslo.
Maya is training for a half marathon in October.
Maya gave up smoking five years ago.
Maya's mother runs a bakery in Accra.
Maya's father taught mathematics.
Maya collects old nautical charts.
Maya dislikes coriander.
Maya's bicycle was stolen in May.
Maya's dentist appointment is next Tuesday.
Maya uses a blue notebook for field work.
Maya's team has six members.
Maya's grant ends in December.
Maya listens to fado while cooking.
Maya's cat sees the vet Doctor Lemos.
Maya keeps a spare key at the corner shop.
Maya once met a whale shark in Mozambique.
Maya votes by post.
Maya's favourite film is Paterson.
Maya bakes bread on Saturdays.
Maya has season tickets for the opera.
Maya's coat is bright yellow.
Maya takes the number 28 tram to work.
Maya lends her cello to a student on Mondays.
Maya's password hint is never to be shared.
Maya plans a trip to the Azores in June.
Maya sends her sister a postcard from every trip.
""".splitlines()
QUESTIONS = (
    "What is the name of Maya's cat?",
    "Which city does Maya live in?",
    "What does Maya's sister do?",
    "What is Maya allergic to?",
)
# One question a measurement: another question recalls another list, so no list was seen before.
TOPICS = (
    *("her sister", "her cat", "her job", "her coat", "her van", "her health", "her boss"),
    *("her friends", "her travels", "her parents", "her food", "her music", "her research"),
    *("her flat", "her plans", "her mornings", "her reading", "her bicycle", "her money"),
    *("her languages", "her team", "the sea", "the opera", "the tram", "the vet", "June"),
    *("Accra", "Oslo", "bread", "films"),
)
SIZES = (5, 20, 50)


def ask(memory: Memory) -> None:
    """A few questions, each with the twenty memories that fit it best."""
    for question in QUESTIONS:
        handle = memory.recall(question, user_id=USER, k=20)
        answer = memory.chat(question, memory=handle, temperature=0, max_tokens=32)
        report = answer.memory
        print(f"\nQ: {question}\nA: {answer.text.strip()}")
        if report and report.tokens:
            counts = report.tokens
            print(f"   ({report.mode}: {counts.injected} tokens injected, {counts.prefilled} read)")


def first_token_ms(memory: Memory, topic: str, k: int, *, inject: bool) -> tuple[float, int]:
    """Milliseconds from the question to the first token of its answer, and the prompt's tokens."""
    field = {"user_id": USER, "k": k, "inject": inject}
    started = time.perf_counter()
    with memory.chat(
        f"Tell me about Maya and {topic}.", memory=field, stream=True, max_tokens=1
    ) as chunks:
        next(iter(chunks))
        elapsed_ms = (time.perf_counter() - started) * 1000
        tokens = chunks.report().tokens
    return elapsed_ms, tokens.injected + tokens.native + tokens.prefilled if tokens else 0


def compare(memory: Memory, repeats: int) -> None:
    """The same kind of question with the memory as text, and injected; in turns, medians."""
    print("\nTime to first token, as this program sees it (medians of", repeats, "in turns):\n")
    print(f"{'memories':>8} {'tokens':>7} {'as text':>10} {'injected':>10} {'ratio':>6}")
    topics = iter(TOPICS * 2)
    first_token_ms(memory, "the weather", SIZES[0], inject=True)  # connections and caches
    for k in SIZES:
        stuffed, injected, tokens = [], [], 0
        for _ in range(repeats):
            stuffed.append(first_token_ms(memory, next(topics), k, inject=False)[0])
            elapsed_ms, tokens = first_token_ms(memory, next(topics), k, inject=True)
            injected.append(elapsed_ms)
        text_ms, kv_ms = statistics.median(stuffed), statistics.median(injected)
        print(f"{k:>8} {tokens:>7} {text_ms:>7.1f} ms {kv_ms:>7.1f} ms {text_ms / kv_ms:>5.1f}×")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="measurements per cell")
    repeats = parser.parse_args().repeats
    with Memory() as memory:
        memory.wait_until_ready()
        memory.delete_all(user_id=USER)
        started = time.perf_counter()
        for fact in FACTS:
            memory.add(fact, user_id=USER, infer=False)
        print(f"{len(FACTS)} memories written in {time.perf_counter() - started:.1f} s", end=", ")
        memory.wait_until_ready(timeout_s=300, builds=True)
        print(f"ready to be injected after {time.perf_counter() - started:.1f} s")
        ask(memory)
        compare(memory, repeats)
        memory.delete_all(user_id=USER)


if __name__ == "__main__":
    main()
