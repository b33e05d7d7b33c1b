"""Random requests and deletions against a model that knows what every cached block was made of."""

import random
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from inferscale_vllm.held import HeldTexts

from .cache_stage import SIZE, CacheStage, shown

OPENING = [7, 8]
TEXTS = {f"text {n}": [1000 * n + k for k in range(3 + 2 * n)] for n in range(1, 7)}
KEYS = {name: f"{n:064x}" for n, name in enumerate(TEXTS)}
ITEMS = {KEYS[name]: ids for name, ids in TEXTS.items()}
SYSTEMS = [[1, 2, 3, 4, 5], list(range(40, 50))]
MAX_RUNNING, MAX_TOKENS = 3, 90


class Model:
    """Does random things, and knows the truth about every block by the tokens it was made of."""

    def __init__(self, stage: CacheStage, seed: int) -> None:
        self.stage, self.rng = stage, random.Random(seed)
        self.running: list[Any] = []
        self.made_of: dict[bytes, set[str]] = {}
        self.gone: set[str] = set()

    def note(self, request: Any) -> None:
        tokens = list(request.all_token_ids)
        begins = {name: tokens.index(ids[0]) for name, ids in TEXTS.items() if ids[0] in tokens}
        for at, block in enumerate(request.block_hashes):
            held = {name for name, start in begins.items() if start < (at + 1) * SIZE}
            self.made_of.setdefault(block, held)

    def cached(self) -> set[bytes]:
        return {name[:-4] for name in self.stage.cached_names}

    def arrive(self) -> None:
        if len(self.running) == MAX_RUNNING:
            return self.finish()
        names = self.rng.sample(sorted(TEXTS), self.rng.randrange(4))
        body = [token for name in names for token in TEXTS[name]]
        tail = [self.rng.randrange(60, 62) for _ in range(self.rng.randrange(1, 9))]
        operation = shown(*((name, KEYS[name]) for name in names), after=OPENING)
        prompt = [*self.rng.choice(SYSTEMS), *OPENING, *body, *tail]
        request = self.stage.arrive(prompt, operation if names else None)
        self.note(request)
        if self.rng.random() < 0.1:  # aborted before it is served
            return self.stage.forgetter.finish(request)
        self.stage.run(request, self.rng.choice([None, None, len(prompt) - 1]))
        self.running.append(request)

    def decode(self) -> None:
        for request in self.running:
            missing = request.num_tokens - request.num_computed_tokens
            if missing:
                self.stage.compute(request, missing)
            elif request.num_tokens < MAX_TOKENS:
                self.stage.decode(request, [self.rng.randrange(60, 62) for _ in range(5)])
            self.note(request)

    def finish(self) -> None:
        if self.running:
            self.stage.finish(self.running.pop(self.rng.randrange(len(self.running))))

    def delete(self) -> None:
        text, before = self.rng.choice(sorted(TEXTS)), self.cached()
        self.stage.delete(text)
        self.stage.forgetter.catch_up()
        self.gone.add(text)
        holding = {block for block in before if text in self.made_of[block]}
        assert before - self.cached() == holding, "what holds it, no less and no more"
        for request in self.running:
            self.note(request)

    def check(self) -> None:
        own = {block for request in self.running for block in request.block_hashes}
        for block in self.cached() - own:
            assert not self.made_of[block] & self.gone, "it was deleted, and came back"
        held = self.stage.forgetter._held
        assert len(held) <= held._limit and not held.is_lossy

    def step(self) -> None:
        actions = [self.arrive, self.decode, self.finish, self.delete]
        self.rng.choices(actions, weights=[6, 3, 4, 1])[0]()
        self.check()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), window=st.sampled_from([0, 8]))
def test_a_deletion_takes_what_holds_it_no_less_and_no_more(seed: int, window: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stage = CacheStage(Path(folder), num_blocks=160, window=window, items=ITEMS)
        model = Model(stage, seed)
        for _ in range(60):
            model.step()
        stage.log.close()
        stage.state.close()


@settings(deadline=None)
@given(
    chains=st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=1, max_size=6),
            st.dictionaries(st.integers(0, 5), st.sampled_from("abcd"), max_size=2),
            st.sets(st.integers(0, 40)),
        ),
        max_size=25,
    ),
    limit=st.sampled_from([8, 40, 10_000]),
)
def test_bookkeeping_with_a_cache_that_loses_blocks(chains: Any, limit: int) -> None:
    """Chains share prefixes; blocks leave the cache unseen. Found is all that is cached and holds
    a text, unless it says that it lost count; and it never grows beyond its limit."""
    cached: set[bytes] = set()
    made_of: dict[bytes, set[str]] = {}
    held = HeldTexts(cached.__contains__, limit=limit)
    for path, begins, lost in chains:
        chain = [bytes(path[: at + 1]) for at in range(len(path))]
        marks = {(at, text) for at, text in begins.items() if at < len(chain)}
        cached.update(chain)
        held.add(chain, marks)
        texts: set[str] = set()
        for at, block in enumerate(chain):
            texts |= {text for start, text in marks if start == at} | made_of.get(block, set())
            made_of[block] = set(texts)
        assert len(held) <= limit
        for number in lost:
            if number < len(made_of):
                block = sorted(made_of)[number]
                cached.discard(block)
                made_of[block] = set()
    if held.is_lossy:
        return
    for text in "abcd":
        holding = {block for block in cached if text in made_of[block]}
        taken = held.take([text])
        assert holding <= taken
        cached -= taken
