"""Plans survive what vLLM does to requests: preemption, abort, a promise asked for twice."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vllm.v1.request import RequestStatus

from inferscale.protocol.engine import Capture, build_params, inject_params
from inferscale_vllm.bank import Bank, ItemHeader, checksum
from inferscale_vllm.fingerprint import adapter_of
from inferscale_vllm.plan import prefix_key, slots_of
from inferscale_vllm.planner import Planner
from inferscale_vllm.report import Reporter
from inferscale_vllm.scheduler import Scheduler
from inferscale_vllm.state import EngineState
from inferscale_vllm.tiers.policy import Tiers

SECRET, BLOCK = "secret", 16
HEAD, ITEMS, TAIL = [1, 2, 3], [[10, 11, 12, 13], [20, 21, 22]], [90, 91]
KEYS = ["aa" * 32, "bb" * 32]
PROMPT = [*HEAD, *ITEMS[0], *ITEMS[1], *TAIL]


class CacheManager:
    """vLLM's, as far as the planner asks: nothing is cached unless told."""

    def __init__(self) -> None:
        self.block_pool = SimpleNamespace(hash_block_size=BLOCK)
        self.exact = 0

    def get_computed_blocks(self, request: Any) -> tuple[Any, int, int]:
        return None, self.exact, 0


class Blocks:
    def get_block_ids(self) -> tuple[list[int], ...]:
        return ([7],)


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    bank = Bank(tmp_path / "bank", limit_bytes=2**24)
    prefix = prefix_key("t", np.asarray(HEAD, np.int32), 0)
    for key, ids, at in ((KEYS[0], ITEMS[0], 3), (KEYS[1], ITEMS[1], 50), (prefix, HEAD, 0)):
        kv = bytes(8 * len(ids))
        header = ItemHeader(len(ids), at, len(kv), checksum(kv), np.asarray(ids, np.int32))
        bank.put({key: (header, memoryview(kv))})
    return bank


@pytest.fixture
def state(tmp_path: Path) -> EngineState:
    return EngineState(tmp_path / "state")


@pytest.fixture
def cache() -> CacheManager:
    return CacheManager()


@pytest.fixture
def scheduler(bank: Bank, state: EngineState, cache: CacheManager) -> Scheduler:
    return make(bank, state, cache)


def make(bank: Bank, state: EngineState, cache: CacheManager, **options: Any) -> Scheduler:
    reporter = Reporter(state)
    planner = Planner(
        banks=[bank], state=state, reporter=reporter, hash_function=hash, unsupported=None
    )
    options = {"group_block_sizes": [BLOCK], **options}
    scheduler = Scheduler(planner=planner, reporter=reporter, secret=SECRET, **options)
    scheduler.bind(cache)
    return scheduler


def request(params: dict[str, Any] | None = None, **changes: Any) -> SimpleNamespace:
    fields: dict[str, Any] = {
        "request_id": "vllm-1",
        "kv_transfer_params": params,
        "prompt_token_ids": PROMPT,
        "num_computed_tokens": 0,
        "pooling_params": None,
        "skip_reading_prefix_cache": False,
        "prompt_embeds": None,
        "lora_request": None,
        "has_encoder_inputs": False,
        "resumable": False,
        "_block_hasher": None,
        "status": RequestStatus.FINISHED_STOPPED,
    }
    return SimpleNamespace(**{**fields, **changes})


def inject(keys: list[str] = KEYS, **changes: Any) -> SimpleNamespace:
    return request(inject_params(SECRET, request_id="r", salt="t", items=keys), **changes)


def step(scheduler: Scheduler, tokens: int, resolve: Callable[[str], Any] | None = None) -> Any:
    state = SimpleNamespace(get_block_ids=resolve or (lambda _: ([7],)))
    output = SimpleNamespace(
        num_scheduled_tokens={"vllm-1": tokens}, kv_connector_block_state=state
    )
    return scheduler.step(output)


def test_reports_count_steps_that_computed_more_than_one_request(scheduler: Scheduler) -> None:
    def crowded() -> int:
        asked = inject()
        scheduler.arrive(asked)
        return (scheduler.finish(asked) or {})["inferscale"]["crowded_steps"]

    step(scheduler, 5)
    assert crowded() == 0
    several = SimpleNamespace(
        num_scheduled_tokens={"a": 1, "b": 3}, kv_connector_block_state=SimpleNamespace()
    )
    scheduler.step(several)
    assert crowded() == 1
    step(scheduler, 5)
    assert crowded() == 1


def test_what_costs_more_than_prefilling_is_left_as_text(
    scheduler: Scheduler, state: EngineState
) -> None:
    inject_line = {"fixed_s": 1.0, "per_token_s": 0.0}
    prefill_line = {"fixed_s": 0.0, "per_token_s": 0.05}
    state.note("cost", {"inject": inject_line, "prefill": prefill_line})
    asked = inject()
    scheduler.arrive(asked)
    assert scheduler.match(asked, 0) == 0
    scheduler.admit(asked, Blocks(), 0)
    report = state.get_report("r") or {}
    assert (report["injected"], report["reason"]) == (0, "costs_more")
    scheduler.finish(asked)
    params = inject_params(SECRET, request_id="r", salt="t", items=KEYS, always=True)
    check = request(params)
    scheduler.arrive(check)
    assert scheduler.match(check, 0) == 10


def test_promise_load_report(scheduler: Scheduler, state: EngineState) -> None:
    asked = inject()
    scheduler.arrive(asked)
    assert scheduler.match(asked, 0) == scheduler.match(asked, 0) == 10
    scheduler.admit(asked, Blocks(), 10)
    [load] = step(scheduler, 2).loads
    assert [(s.source, s.num_tokens, s.position, s.shift) for s in load.segments] == [
        (0, 3, 0, 0),
        (0, 4, 3, 0),
        (0, 3, 7, -43),
    ]
    assert load.slots[0].tolist() == list(range(7 * BLOCK, 7 * BLOCK + 10))
    assert load.block_ids == [7]
    report = state.get_report("r") or {}
    assert (report["injected"], report["native"], report["prefilled"]) == (10, 0, 2)
    assert step(scheduler, 1).loads == []


def test_preempted_request_is_promised_again_and_reported_once(
    scheduler: Scheduler, state: EngineState
) -> None:
    asked = inject()
    scheduler.arrive(asked)
    for local in (0, 4):
        assert scheduler.match(asked, local) == 10 - local
        scheduler.admit(asked, Blocks(), 10 - local)
        assert len(step(scheduler, 2).loads) == 1
    assert (state.get_report("r") or {})["injected"] == 10
    assert state.get_note("counters")["injected_tokens"] == 10


def test_an_item_retired_after_arrival_is_not_promised(scheduler: Scheduler, bank: Bank) -> None:
    asked = inject()
    scheduler.arrive(asked)
    bank.retire(KEYS[:1])
    assert scheduler.match(asked, 0) == 0
    scheduler.admit(asked, Blocks(), 0)
    assert (scheduler.finish(asked) or {})["inferscale"]["reason"] == "items_missing"


def test_items_are_promised_from_arrival_to_the_end(scheduler: Scheduler, bank: Bank) -> None:
    asked = inject()
    scheduler.arrive(asked)
    wanted = set(map(bytes.fromhex, bank.keys()))
    assert bank.promises.promised() == wanted and len(wanted) == 3
    scheduler.match(asked, 0)
    scheduler.finish(asked)
    assert bank.promises.promised() == set()


def test_an_aborted_request_leaves_its_promise_to_the_load_under_way(
    scheduler: Scheduler, bank: Bank
) -> None:
    asked = inject(status=RequestStatus.FINISHED_ABORTED)
    scheduler.arrive(asked)
    scheduler.finish(asked)
    assert len(bank.promises.promised()) == 3


def test_uses_reach_the_bank(scheduler: Scheduler, bank: Bank) -> None:
    scheduler.arrive(inject())
    assert bank.promises.last_uses() == {}, "not a write per request"
    step(scheduler, 4)
    assert bank.promises.last_uses().keys() == set(map(bytes.fromhex, bank.keys()))


def test_the_last_prompt_token_is_never_claimed(scheduler: Scheduler) -> None:
    asked = inject(prompt_token_ids=PROMPT[: -len(TAIL)])
    scheduler.arrive(asked)
    assert scheduler.match(asked, 0) == 9


def test_native_hits_come_first(scheduler: Scheduler, cache: CacheManager) -> None:
    cache.exact = BLOCK
    asked = inject()
    scheduler.arrive(asked)
    assert scheduler.match(asked, BLOCK) == 0
    scheduler.admit(asked, Blocks(), 0)
    report = (scheduler.finish(asked) or {})["inferscale"]
    assert (report["reason"], report["native"], report["injected"]) == ("native_hit", BLOCK, 0)


@pytest.mark.parametrize(
    ("exact", "stays_exact", "injected", "reason"),
    [
        (BLOCK, True, 0, "native_hit"),
        (BLOCK, False, 3, None),
        (0, True, 19, None),
    ],
)
def test_less_than_a_block_behind_exact_kv_is_computed_if_asked_for(
    bank: Bank,
    scheduler: Scheduler,
    cache: CacheManager,
    *,
    exact: int,
    stays_exact: bool,
    injected: int,
    reason: str | None,
) -> None:
    head = list(range(100, 112))
    ids = np.asarray(head, np.int32)
    header = ItemHeader(12, 0, 96, checksum(bytes(96)), ids)
    bank.put({prefix_key("t", ids, 0): (header, memoryview(bytes(96)))})
    cache.exact = exact
    params = inject_params(SECRET, request_id="r", salt="t", items=KEYS, stays_exact=stays_exact)
    asked = request(params, prompt_token_ids=[*head, *ITEMS[0], *ITEMS[1], *TAIL])
    scheduler.arrive(asked)
    assert scheduler.match(asked, exact) == injected
    scheduler.admit(asked, SimpleNamespace(get_block_ids=lambda: ([7, 8],)), injected)
    report = (scheduler.finish(asked) or {})["inferscale"]
    assert (report["native"], report["reason"]) == (exact, reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lora_request": SimpleNamespace(lora_name="a", lora_path="/nowhere")}, "lora"),
        ({"has_encoder_inputs": True}, "multimodal"),
        ({"resumable": True}, "resumable"),
        ({"skip_reading_prefix_cache": True}, "prompt_logprobs"),
        ({"prompt_embeds": object()}, "prompt_embeds"),
        ({"prompt_token_ids": [5, 6, 7, 8]}, "items_not_in_prompt"),
    ],
)
def test_reasons(scheduler: Scheduler, changes: dict[str, Any], reason: str) -> None:
    asked = inject(**changes)
    scheduler.arrive(asked)
    assert scheduler.match(asked, 0) == 0
    assert (scheduler.finish(asked) or {})["inferscale"]["reason"] == reason


def test_unsigned_requests_leave_no_trace_but_a_count(
    scheduler: Scheduler, state: EngineState
) -> None:
    asked = request({"inferscale": {"op": "inject"}})
    scheduler.arrive(asked)
    assert scheduler.match(asked, 0) == 0 and scheduler.finish(asked) is None
    assert state.get_note("counters")["declined"] == {"unauthenticated": 1}


def build(captures: list[Capture]) -> SimpleNamespace:
    return request(build_params(SECRET, request_id="b", salt="t", captures=captures))


def test_capture_follows_the_chunks_of_a_prefill(scheduler: Scheduler) -> None:
    asked = build([Capture("cc" * 32, 2, 6), Capture(KEYS[0], 6, 8)])
    scheduler.arrive(asked)
    [first] = step(scheduler, 4).slices
    assert (first.offset, first.num_item_tokens, len(first.slots[0])) == (0, 4, 2)
    asked.num_computed_tokens = 4
    [second] = step(scheduler, 8).slices  # what the bank holds already is not captured again
    assert (second.key, second.offset, second.slots[0].tolist()) == ("cc" * 32, 2, [116, 117])
    assert (scheduler.finish(asked) or {})["inferscale"]["stored"] == (KEYS[0],)


def test_a_bug_in_capture_keeps_the_promises_of_the_step(scheduler: Scheduler) -> None:
    asked = inject()
    scheduler.arrive(asked)
    scheduler.admit(asked, Blocks(), 10)
    scheduler.arrive(build([Capture("cc" * 32, 2, 6)]))

    def explode(request_id: str) -> Any:
        raise RuntimeError("a bug")

    metadata = step(scheduler, 4, explode)
    assert len(metadata.loads) == 1 and metadata.slices == []


def test_slots_skip_the_null_block() -> None:
    assert slots_of([0, 5], 4, 2, 6).tolist() == [-1, -1, 20, 21]


def test_items_of_an_adapter_serve_it_and_nobody_else(
    scheduler: Scheduler, bank: Bank, tmp_path: Path
) -> None:
    lora = SimpleNamespace(lora_name="tuned", lora_path=str(tmp_path))
    mine, prefix = (
        adapter_of(lora),
        prefix_key("t", np.asarray(HEAD, np.int32), 0, adapter_of(lora)),
    )
    for key, ids, at in ((KEYS[0], ITEMS[0], 3), (KEYS[1], ITEMS[1], 7), (prefix, HEAD, 0)):
        kv = bytes(8 * len(ids))
        header = ItemHeader(
            len(ids), at, len(kv), checksum(kv), np.asarray(ids, np.int32), adapter=mine
        )
        bank.put({key: (header, memoryview(kv))})
    asked = inject(lora_request=lora)
    scheduler.arrive(asked)
    assert scheduler.match(asked, 0) == 10
    plain = inject()
    scheduler.arrive(plain)
    assert scheduler.match(plain, 0) == 0
    assert (scheduler.finish(plain) or {})["inferscale"]["reason"] == "lora"


def test_groups_have_their_own_slots_and_a_window_none_for_what_it_dropped(
    bank: Bank, state: EngineState, cache: CacheManager
) -> None:
    scheduler = make(bank, state, cache, group_block_sizes=[4, 8])
    asked = inject()
    scheduler.arrive(asked)
    assert scheduler.match(asked, 0) == 10
    blocks = SimpleNamespace(get_block_ids=lambda: ([9, 3, 5], [0, 2]))
    scheduler.admit(asked, blocks, 10)
    [load] = step(scheduler, 2).loads
    assert load.slots[0].tolist() == [36, 37, 38, 39, 12, 13, 14, 15, 20, 21]
    assert load.slots[1].tolist() == [-1] * 8 + [16, 17]


STORED_BYTES = 8 * 10
"""What a whole injection reads: prefix and both items."""


@pytest.mark.parametrize(("step_bytes", "per_step"), [(0, 3), (1, 1), (2 * STORED_BYTES, 2)])
def test_what_is_too_much_for_a_step_comes_in_a_later_one(
    bank: Bank, state: EngineState, cache: CacheManager, step_bytes: int, per_step: int
) -> None:
    scheduler = make(bank, state, cache, step_bytes=step_bytes)
    waiting = [inject(request_id=f"vllm-{n}") for n in range(3)]
    for asked in waiting:
        scheduler.arrive(asked)
    loads = []
    while waiting:
        for asked in waiting:
            claim = scheduler.match(asked, 0)
            assert claim in (10, None)
            if claim:
                scheduler.admit(asked, Blocks(), claim)
        loads.append(len(step(scheduler, 2).loads))
        waiting = waiting[loads[-1] :]
    assert loads == [per_step] * (3 // per_step) + [3 % per_step] * bool(3 % per_step)
    delayed = (state.get_note("counters") or {}).get("delayed_requests", 0)
    assert delayed == 3 - per_step


def test_a_request_that_vllm_finds_no_room_for_spends_nothing(
    bank: Bank, state: EngineState, cache: CacheManager
) -> None:
    scheduler = make(bank, state, cache, step_bytes=1)
    first, second = inject(request_id="vllm-1"), inject(request_id="vllm-2")
    for asked in (first, second):
        scheduler.arrive(asked)
        assert scheduler.match(asked, 0) == 10


@pytest.fixture
def tiers() -> Tiers:
    """An arena for all three items of the requests, 8 bytes per token, and not one more."""
    return Tiers(host_slabs=3, hbm_slabs=0, slab_bytes=64)


@pytest.fixture
def tiered(bank: Bank, state: EngineState, cache: CacheManager, tiers: Tiers) -> Scheduler:
    return make(bank, state, cache, tiers=tiers)


def test_copies_begin_at_arrival_and_the_promise_follows_them(
    tiered: Scheduler, bank: Bank, state: EngineState
) -> None:
    asked = inject()
    tiered.arrive(asked)
    assert tiered.match(asked, 0) is None
    first = step(tiered, 0)
    assert {copy.key for copy in first.fetches} == set(bank.keys()) and first.loads == []
    assert tiered.match(asked, 0) == 10
    tiered.admit(asked, Blocks(), 10)
    second = step(tiered, 2)
    assert second.fetches == [] and len(second.loads) == 1
    hot = inject(request_id="vllm-2")
    tiered.arrive(hot)
    assert tiered.match(hot, 0) == 10, "who comes later waits for nothing"
    assert (state.get_note("counters") or {})["delayed_requests"] == 1


@pytest.mark.parametrize("end", ["finish", "admit"])
def test_arenas_hold_what_is_promised_until_it_is_injected(
    tiered: Scheduler, tiers: Tiers, end: str
) -> None:
    asked = inject(status=RequestStatus.FINISHED_ABORTED)
    tiered.arrive(asked)
    step(tiered, 0)
    assert tiered.match(asked, 0) == 10
    assert tiers.host.reserve("another", {("another", 0): 1}) is None
    tiered.finish(asked) if end == "finish" else tiered.admit(asked, Blocks(), 10)
    is_free = end == "finish"
    assert (tiers.host.reserve("another", {("another", 0): 1}) is not None) == is_free
    step(tiered, 2)
    assert tiers.host.reserve("another", {("another", 0): 1}) is not None


def test_a_bug_in_the_arenas_costs_the_arenas_only(
    bank: Bank, state: EngineState, cache: CacheManager
) -> None:
    class Broken(Tiers):
        def step(self) -> Any:
            raise RuntimeError("a bug")

    scheduler = make(bank, state, cache, tiers=Broken(host_slabs=3, hbm_slabs=0, slab_bytes=64))
    asked = inject()
    scheduler.arrive(asked)
    assert scheduler.match(asked, 0) is None
    assert step(scheduler, 0).fetches == []
    assert scheduler.match(asked, 0) == 10


@pytest.fixture
def talk(bank: Bank) -> list[int]:
    """A history of two full blocks and a tail of eight tokens, which the bank has."""
    history = list(range(1000, 1040))
    ids = np.asarray(history, np.int32)
    kv = bytes(8 * 8)
    header = ItemHeader(8, 32, len(kv), checksum(kv), ids[32:])
    bank.put({prefix_key("t", ids, 32): (header, memoryview(kv))})
    return [*history, *ITEMS[0], *ITEMS[1], *TAIL]


class LongBlocks:
    def get_block_ids(self) -> tuple[list[int], ...]:
        return ([7, 8, 9, 10],)


def test_behind_a_history_a_plan_begins_where_vllms_own_hit_ends(
    scheduler: Scheduler, cache: CacheManager, state: EngineState, talk: list[int]
) -> None:
    asked, cache.exact = inject(prompt_token_ids=talk), 32
    scheduler.arrive(asked)
    assert scheduler.match(asked, 32) == 8 + 7
    scheduler.admit(asked, LongBlocks(), 15)
    [load] = step(scheduler, 2).loads
    assert [(s.source, s.num_tokens, s.position, s.shift) for s in load.segments] == [
        (0, 8, 32, 0),
        (0, 4, 40, 37),
        (0, 3, 44, -6),
    ]
    assert load.slots[0].tolist() == list(range(9 * BLOCK, 9 * BLOCK + 15))
    report = state.get_report("r") or {}
    assert (report["native"], report["injected"], report["prefilled"]) == (32, 15, 2)


def test_a_tail_is_of_no_use_if_vllm_lost_the_blocks_before_it(
    scheduler: Scheduler, cache: CacheManager, state: EngineState, talk: list[int]
) -> None:
    asked, cache.exact = inject(prompt_token_ids=talk), 16
    scheduler.arrive(asked)
    assert scheduler.match(asked, 16) == 0
    scheduler.admit(asked, LongBlocks(), 0)
    assert (state.get_report("r") or {})["reason"] == "prefix_not_captured"
