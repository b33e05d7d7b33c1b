"""What was deleted is found by nobody: vLLM's own cache manager, with requests of every kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inferscale.protocol.engine import Shown
from inferscale_vllm import recent
from inferscale_vllm.bank import forgotten
from inferscale_vllm.operation import Show

from .cache_stage import SIZE, CacheStage, scratch, shown

SYSTEM = list(range(100, 112))
OPENING = [7, 8]
ALICE, BOB = [20, 21, 22, 23, 24], [30, 31, 32, 33, 34, 35]
TAIL = list(range(200, 207))
PROMPT = [*SYSTEM, *OPENING, *ALICE, *BOB, *TAIL]
ITEMS = {"aa" * 32: ALICE, "bb" * 32: BOB}
BOTH = shown(("alice", "aa" * 32), ("bob", "bb" * 32), after=OPENING)
ALICE_AT, BOB_AT = 14 // SIZE * SIZE, 19 // SIZE * SIZE
WHOLE = (len(PROMPT) - 1) // SIZE * SIZE


@pytest.fixture(params=[0, 8], ids=["full", "window"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> CacheStage:
    return CacheStage(tmp_path, window=request.param, items=ITEMS)


def test_nothing_deleted_nothing_lost(stage: CacheStage) -> None:
    assert stage.serve(PROMPT, BOTH) == 0
    stage.delete("carol")
    assert stage.serve(PROMPT, BOTH) == WHOLE


@pytest.mark.parametrize(("text", "left"), [("alice", ALICE_AT), ("bob", BOB_AT)])
def test_a_deleted_text_is_gone_from_where_it_began(
    stage: CacheStage, text: str, left: int
) -> None:
    stage.serve(PROMPT, BOTH)
    stage.delete(text)
    assert stage.serve(PROMPT) == left
    assert stage.serve(PROMPT) == WHOLE, "what somebody sends himself is cached as ever"


def test_a_text_without_an_item_begins_behind_the_one_before_it(stage: CacheStage) -> None:
    stage.serve(PROMPT, shown(("alice", "aa" * 32), "bob", after=OPENING))
    stage.delete("bob")
    assert stage.serve(PROMPT) == BOB_AT


@pytest.mark.parametrize("after", [(), (9, 9)], ids=["none", "not found"])
def test_a_text_that_stands_nobody_knows_where_begins_with_the_prompt(
    stage: CacheStage, after: tuple[int, ...]
) -> None:
    stage.serve(PROMPT, shown("alice", after=after))
    stage.delete("alice")
    assert stage.serve(PROMPT) == 0


def test_what_was_computed_behind_it_goes_too_whoever_computed_it(stage: CacheStage) -> None:
    stage.serve(PROMPT, BOTH)
    longer = [*PROMPT, *range(300, 320)]
    stage.serve(longer)
    before = stage.cached_names
    stage.delete("bob")
    assert stage.serve(SYSTEM) == 8
    gone = before - stage.cached_names
    assert len(gone) >= (len(longer) - BOB_AT) // SIZE
    assert all(stage.pool.cached_block_hash_to_block.get_one_block(n) is None for n in gone)


def test_generated_blocks_go_too(stage: CacheStage) -> None:
    request = stage.arrive(PROMPT, BOTH)
    stage.run(request)
    stage.decode(request, list(range(400, 412)))
    stage.finish(request)
    before = len(stage.cached_names)
    stage.delete("alice", "bob")
    stage.forgetter.catch_up()
    assert len(stage.cached_names) < before
    assert stage.serve([*PROMPT, *range(400, 412)]) == ALICE_AT


def test_a_text_under_way_is_read_on_and_found_by_nobody(stage: CacheStage) -> None:
    running = stage.arrive(PROMPT, BOTH)
    stage.run(running, 20)
    stage.delete("alice")
    other = stage.arrive(PROMPT)
    assert stage.run(other) == ALICE_AT
    stage.compute(running, len(PROMPT) - 20)
    stage.decode(running, list(range(400, 420)))
    stage.finish(other)
    stage.finish(running)
    left = stage.serve([*PROMPT, *range(400, 420)])
    assert left == len(PROMPT), "that is the other one's, not its"


def test_a_text_in_a_block_that_is_not_full_yet(stage: CacheStage) -> None:
    prompt = [*SYSTEM, 50, 51]
    running = stage.arrive(prompt, shown(("short", "cc" * 32), after=SYSTEM))
    stage.run(running)
    stage.delete("short")
    stage.serve([1, 2, 3, 4, 5])
    stage.decode(running, list(range(400, 420)))
    stage.finish(running)
    assert stage.serve([*prompt, *range(400, 420)]) == len(SYSTEM)


def test_who_goes_on_behind_a_deleted_text_keeps_that_to_himself(stage: CacheStage) -> None:
    """A request that shows nothing, but whose client sent the very same tokens."""
    stage.serve(PROMPT, BOTH)
    longer = [*PROMPT, *range(300, 320)]
    running = stage.arrive(longer)
    assert stage.run(running, 40) == len(PROMPT)
    stage.delete("alice")
    stage.serve([1, 2, 3, 4, 5])
    stage.compute(running, len(longer) - 40)
    stage.finish(running)
    assert stage.serve(longer) == ALICE_AT


def test_a_prompt_from_before_the_deletion_brings_nothing_back(stage: CacheStage) -> None:
    stage.delete("alice")
    assert stage.serve(PROMPT, BOTH) == 0
    assert stage.serve(PROMPT, BOTH) == ALICE_AT
    assert stage.serve(PROMPT) == ALICE_AT


def test_preempted_and_resumed(stage: CacheStage) -> None:
    running = stage.arrive(PROMPT, BOTH)
    stage.run(running)
    stage.delete("bob")
    stage.forgetter.catch_up()
    stage.manager.free(running)
    running.num_computed_tokens = 0
    assert stage.run(running) == BOB_AT
    stage.finish(running)
    assert stage.serve(PROMPT) == BOB_AT


def test_scratch_leaves_nothing(stage: CacheStage) -> None:
    stage.serve(PROMPT)
    before = stage.cached_names
    stage.serve(PROMPT, scratch(), salt="of nobody else")
    assert stage.cached_names == before


def test_freed_blocks_are_the_next_to_be_written_over(stage: CacheStage) -> None:
    request = stage.arrive(PROMPT, BOTH)
    stage.run(request)
    held = set(stage.manager.get_block_ids(request.request_id)[0][BOB_AT // SIZE : WHOLE // SIZE])
    stage.finish(request)
    stage.delete("bob")
    stage.forgetter.catch_up()
    again = stage.arrive([*range(500, 500 + 4 * SIZE * len(held))], salt="new")
    stage.run(again)
    assert held <= {n for group in stage.manager.get_block_ids(again.request_id) for n in group}


def test_tenants_do_not_feel_each_other(stage: CacheStage) -> None:
    for salt in ("a", "b"):
        stage.serve(PROMPT, Show("id", salt, _named(salt)), salt=salt)
    stage.delete("a's")
    assert stage.serve(PROMPT, salt="a") == ALICE_AT
    assert stage.serve(PROMPT, salt="b") == WHOLE


def _named(salt: str) -> tuple[Shown, ...]:
    return (Shown(tuple(OPENING), ((f"{salt}'s", "aa" * 32),)),)


def test_equal_tokens_under_two_names_go_with_either(stage: CacheStage) -> None:
    stage.serve(PROMPT, shown(("first", "aa" * 32), after=OPENING))
    stage.serve(PROMPT, shown(("second", "aa" * 32), after=OPENING))
    stage.delete("first")
    assert stage.serve(PROMPT) == ALICE_AT


def test_all_at_once(stage: CacheStage) -> None:
    stage.serve(PROMPT, BOTH)
    stage.log.add_everything()
    stage.forgetter.catch_up()
    assert not stage.cached_names
    assert all(block.block_hash is None for block in stage.pool.blocks)
    assert stage.serve(PROMPT) == 0


def test_who_is_too_far_behind_forgets_everything(
    stage: CacheStage, fill: Callable[[CacheStage, int], None]
) -> None:
    stage.serve(PROMPT, BOTH)
    stage.delete("alice")
    fill(stage, forgotten.MAX_ENTRIES)
    stage.forgetter.catch_up()
    assert not stage.cached_names


def test_who_is_just_not_too_far_behind_forgets_what_was_deleted(
    stage: CacheStage, fill: Callable[[CacheStage, int], None]
) -> None:
    stage.serve(PROMPT, BOTH)
    stage.delete("bob")
    fill(stage, forgotten.MAX_ENTRIES - 1)
    assert stage.serve(PROMPT) == BOB_AT


@pytest.fixture
def fill() -> Callable[[CacheStage, int], None]:
    def add(stage: CacheStage, entries: int) -> None:
        for number in range(entries):
            stage.delete(f"other {number}")

    return add


def test_a_bug_forgets_too_much(stage: CacheStage) -> None:
    known, stage.items = stage.items, None  # type: ignore[assignment]
    stage.serve(PROMPT, BOTH)  # where its texts begin cannot be found out
    stage.items = known
    stage.delete("somebody else")
    assert stage.serve(PROMPT) == 0
    assert stage.serve(PROMPT) == WHOLE
    stage.delete("somebody else")
    assert stage.serve(PROMPT) == WHOLE, "once is enough"


def test_an_engine_that_starts_has_nothing_to_forget(stage: CacheStage) -> None:
    stage.delete("alice")
    fresh = stage.make_forgetter()
    before = stage.state.get_note("forgotten")
    fresh.catch_up()
    assert before == stage.log.last
    assert stage.state.get_note("counters")["forgotten_blocks"] == 0


def test_blocks_are_counted(stage: CacheStage) -> None:
    stage.serve(PROMPT, BOTH)
    names = len(stage.cached_names)
    stage.delete("alice")
    assert stage.state.get_note("forgotten") < stage.log.last
    stage.forgetter.catch_up()
    gone = names - len(stage.cached_names)
    assert stage.state.get_note("counters")["forgotten_blocks"] == gone > 0
    assert stage.state.get_note("forgotten") == stage.log.last


class TestRecent:
    def test_for_a_while(self) -> None:
        now = [0.0]
        texts = recent.RecentTexts(lambda: now[0])
        texts.add(["a"])
        now[0] = recent.KEEP_S / 2
        texts.add(["b"])
        assert "a" in texts and "b" in texts and "c" not in texts
        now[0] = recent.KEEP_S
        assert "a" not in texts and "b" in texts
        texts.add_everything()
        assert "c" in texts

    def test_too_many_to_keep_are_all_there_are(self) -> None:
        now = [0.0]
        texts = recent.RecentTexts(lambda: now[0])
        texts.add(str(number) for number in range(recent.MAX_TEXTS))
        assert "c" not in texts
        now[0] = 1.0
        texts.add(["one more"])
        assert "0" in texts and "c" in texts
        now[0] = recent.KEEP_S
        assert "0" not in texts and "c" not in texts and "one more" in texts


def test_without_prefix_caching_there_is_nothing_to_forget(tmp_path: Path) -> None:
    stage = CacheStage(tmp_path, items=ITEMS)
    stage._hasher = None  # type: ignore[assignment]
    request: Any = stage.arrive(PROMPT, BOTH)
    stage.delete("alice")
    stage.forgetter.catch_up()
    stage.forgetter.finish(request)
    assert not stage.cached_names
