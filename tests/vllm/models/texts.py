"""Real text for a model that can read it, and how far injected memory is from it.

Owns the prompts: a head of `HEAD` tokens, lines of made-up facts that fill whole blocks with it,
and questions about them.
"""

import math
from itertools import chain, islice
from typing import Any

from benchmarks import _facts

from .offline import BLOCK, HEAD, Offline, inject
from .zoo import TOP

FACTS, QUESTIONS, LEFT_OUT = 56, 6, 5
_HEAD = "What is known about Tilda, a friend of the family who lives in our town, line by line:\n"


def of_model(engine: Offline) -> list[Any]:
    """Head, items, and tails, as token ids; the last item is cut where a block ends."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(engine.folder / "model" / "tokenizer.json"))

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return found

    bos = tokenizer.token_to_id("<bos>")
    line = ids(_HEAD)
    head = [bos, *line[: HEAD - 1]]
    assert len(head) == HEAD, f"the head has {len(head)} tokens; lengthen it"
    items = [ids(f"- {fact}\n") for fact in _facts.facts(FACTS, seed=3)]
    over = (HEAD + sum(map(len, items))) % BLOCK
    while over >= len(items[-1]):
        over -= len(items.pop())
    items[-1] = items[-1][: len(items[-1]) - over]
    asked = islice(_facts.questions(seed=3), QUESTIONS)
    return [head, items, *(ids(f"\nQuestion: {text}\nAnswer:") for text in asked)]


def divergences(
    engine: Offline, head: list[int], items: list[list[int]], keys: list[str], tails: list[Any]
) -> dict[str, float]:
    """Mean KL in nats of the first token of an answer from that behind the same text.

    `shifted`: without the first `LEFT_OUT` items, so all others move and keep their neighbours.
    `reversed`: every item moves, and stands behind others than those it was encoded behind.

    Args:
        head: tokens before the memory.
        items, keys: as they were built.
        tails: what is asked behind them.
    """
    lists = {"shifted": slice(LEFT_OUT, None), "reversed": slice(None, None, -1)}
    sums = dict.fromkeys((*lists, "no_memory"), 0.0)
    for n, tail in enumerate(tails):
        nothing = _first(engine, head + tail, f"n{n}")
        for name, chosen in lists.items():
            block = head + list(chain(*items[chosen]))
            text = _first(engine, block + tail, f"t{n}{name}")
            report = f"q{n}{name}"
            injected = _first(engine, block + tail, f"i{n}", inject(keys[chosen], report))
            assert engine.report(report)["injected"] == len(block), engine.report(report)
            sums[name] += _kl(text, injected)
        sums["no_memory"] += _kl(text, nothing)
    return {name: round(total / len(tails), 5) for name, total in sums.items()}


def _first(engine: Offline, ids: list[int], salt: str, params: Any = None) -> dict[str, float]:
    """Logprobs of the first token."""
    found: dict[str, float] = engine.complete(ids, params, tokens=1, top=TOP, salt=salt)[0][1][0]
    return found


def _kl(text: dict[str, float], other: dict[str, float]) -> float:
    """KL over the tokens that both name, and all others as one: a lower bound, and a close one."""
    both = text.keys() & other.keys()
    pairs = [(text[token], other[token]) for token in both]
    rest = [math.log(max(1e-9, 1 - sum(map(math.exp, side)))) for side in zip(*pairs, strict=True)]
    return sum(math.exp(p) * (p - q) for p, q in [*pairs, (rest[0], rest[1])])
