"""The benchmarks without an engine: shapes of rows, order of rounds, what an arm sends."""

import importlib
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

import httpx
import pytest
from benchmarks import _facts, _output, _rounds, _sidecar, build, load, overhead, turns
from benchmarks._arms import EngineArm
from benchmarks._items import Stored, StoredItem
from benchmarks._rounds import Sample

from inferscale.protocol.engine import PARAMS_FIELD, is_signed
from inferscale_sidecar.compose.frame import MemoryFrame
from inferscale_sidecar.core import Tenant

FIELDS = {
    "ttft": (
        "via items tokens stuffed_ms injected_ms reuse_ms no_memory_ms native_hit_ms copy_ms "
        "memcpy_ms"
    ),
    "overhead": "path direct_ms sidecar_ms",
    "bank": "dtype bytes_per_token bf16_bytes_per_token kl_added",
    "build": "items tokens seconds add_to_injectable_s",
    "turns": "template memory position prepared tokens native injected prefilled ttft_ms right",
    "load": (
        "rate_rps arm p50_ttft_ms p99_ttft_ms throughput_rps goodput_rps ratio p99_stall_ms "
        "requests declined"
    ),
}
MS = {"none": 10.0, "text": 100.0, "injected": 20.0}


@dataclass
class FakeArm:
    """Answers at once; `native` is what each new composition finds cached."""

    via: str = "sdk"
    native: list[int] = field(default_factory=list)
    asked: list[tuple[int, bool]] = field(default_factory=list)

    def turn(self, items: int) -> "FakeTurn":
        return FakeTurn(self, items)

    def no_memory(self) -> Sample:
        return Sample(MS["none"], 40, 0, 0, "none")


@dataclass
class FakeTurn:
    arm: FakeArm
    items: int
    calls: int = 0

    def ask(self, *, inject: bool) -> Sample:
        self.calls += 1
        self.arm.asked.append((self.items, inject))
        mode = "injected" if inject else "text"
        if self.calls > 1:
            return Sample(MS[mode] / 2, 1000, 0, 900, mode)
        native = self.arm.native.pop() if self.arm.native else 0
        return Sample(MS[mode], 1000, 800 if inject else 0, native, mode, 3.0)


@pytest.mark.parametrize("name", ["ttft", "overhead", "bank", "build", "kernels", "turns", "load"])
def test_every_benchmark_can_be_imported_and_documents_itself(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    assert callable(module.main)
    missing = [f for f in FIELDS.get(name, "").split() if f"`{f}`" not in _documented(module)]
    assert not missing


def _documented(module: object) -> str:
    text = module.__doc__ or ""
    return text + "".join(f"`{word}`" for word in text.split())


def test_a_row_of_ttft_has_the_named_fields_and_medians() -> None:
    cells = _rounds.measure([FakeArm()], [5, 20], repeats=3, head_tokens=50, seed=1)
    small, large = _rounds.rows(cells, {5: (1.25, 0.5)})
    assert list(small)[:10] == FIELDS["ttft"].split()
    assert (small["stuffed_ms"], small["injected_ms"], small["ratio"]) == (100.0, 20.0, 5.0)
    assert (small["native_hit_ms"], small["reuse_ms"], small["no_memory_ms"]) == (50.0, 10.0, 10.0)
    assert (small["copy_ms"], large["copy_ms"]) == (1.25, None)
    assert (small["recall_ms"], small["samples"]) == (3.0, 3)


def test_all_cells_take_turns_and_the_first_round_is_not_counted() -> None:
    arm = FakeArm()
    cells = _rounds.measure([arm], [5, 20], repeats=2, head_tokens=50, seed=1)
    assert all(len(cell.samples[kind]) == 2 for cell in cells.values() for kind in _rounds.KINDS)
    assert Counter(arm.asked) == {(n, inject): 6 for n in (5, 20) for inject in (True, False)}
    again = FakeArm()
    _rounds.measure([again], [5, 20], repeats=2, head_tokens=50, seed=1)
    assert again.asked == arm.asked
    rounds = [arm.asked[at : at + 8] for at in (0, 8, 16)]
    assert all({n for n, _ in asked} == {5, 20} for asked in rounds)


def test_a_composition_that_a_cache_held_is_drawn_again() -> None:
    arm = FakeArm(native=[0, 0, 700])
    cells = _rounds.measure([arm], [5], repeats=0, head_tokens=50, seed=1)
    assert cells["sdk", 5].rejected == 1
    assert all(s.native == 0 for s in cells["sdk", 5].samples["stuffed"])


def test_it_gives_up_when_an_arm_never_does_what_it_says() -> None:
    with pytest.raises(SystemExit, match="in a row were not"):
        _rounds.measure([FakeArm(native=[700] * 20)], [5], repeats=1, head_tokens=50, seed=1)


@pytest.mark.parametrize(
    ("sample", "inject", "fits"),
    [
        (Sample(1, 100, 0, 32, "text"), False, True),
        (Sample(1, 100, 0, 64, "text"), False, False),
        (Sample(1, 100, 60, 32, "injected"), True, True),
        (Sample(1, 100, 60, 0, "partial"), True, False),
        (Sample(1, 100, 0, 0, "text"), True, False),
        (Sample(1, 100, 0, 32, "injected"), True, False),
    ],
)
def test_what_counts_as_stuffed_and_as_injected(sample: Sample, inject: bool, fits: bool) -> None:
    assert _rounds.is_what_it_says(sample, 50, inject=inject) is fits


def test_the_engine_arm_leaves_the_best_items_to_the_suffix_and_sends_the_sidecars_text() -> None:
    seen: list[dict[str, object]] = []
    items = tuple(StoredItem(f"fact {n}", f"{n:064x}", 4) for n in range(50))
    texts = {item.text: item.key for item in items}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"injected": 70, "reason": None})
        seen.append(json.loads(request.content))
        usage = {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 80}}
        lines = [
            {"choices": [{"delta": {"role": "assistant", "content": ""}}]},
            {"choices": [{"delta": {"content": "a"}, "finish_reason": "length"}]},
            {"choices": [], "usage": usage},
        ]
        body = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
        return httpx.Response(200, text=body)

    http = httpx.Client(base_url="http://engine", transport=httpx.MockTransport(answer))
    stored = Stored(Tenant("t", "default", b"salt"), items)
    arm = EngineArm(http, "demo", "a secret of the test", stored, _facts.questions(1), seed=1)
    turn = arm.turn(10)
    assert turn.ask(inject=False).mode == "text"
    sample = turn.ask(inject=True)
    assert (sample.mode, sample.injected, sample.native, sample.tokens) == ("injected", 70, 10, 100)

    stuffed, injected = seen
    assert "kv_transfer_params" not in stuffed
    params = injected["kv_transfer_params"][PARAMS_FIELD]
    assert is_signed("a secret of the test", params)
    block = injected["messages"][0]["content"]
    assert block == stuffed["messages"][0]["content"]
    _, *shown = [line[2:] for line in block.splitlines() if line.startswith("- ")]  # the opening
    assert block.endswith(MemoryFrame().render(shown))
    assert params["items"] == [texts[text] for text in shown[:8]]


def test_facts_are_many_and_different_and_the_same_for_a_seed() -> None:
    facts = _facts.facts(480, seed=3)
    assert len(set(facts)) == 480
    assert facts == _facts.facts(480, seed=3) != _facts.facts(480, seed=4)
    questions = list(islice(_facts.questions(3), 1000))
    assert len(set(questions)) == 1000
    assert questions == list(islice(_facts.questions(3), 1000))


def test_a_row_of_overhead_has_the_named_fields_and_pairs_its_differences() -> None:
    rng = random.Random(1)
    direct = [20 + 10 * rng.random() for _ in range(101)]
    (row,) = overhead.rows({"chat": [(ms, ms + 2) for ms in direct]})
    assert list(row)[:3] == FIELDS["overhead"].split()
    assert (row["added_ms"], row["added_p95_ms"]) == (2.0, 2.0)
    assert row["sidecar_ms"] == pytest.approx(row["direct_ms"] + 2)


def test_a_row_of_build_has_the_named_fields_and_medians() -> None:
    runs = [build.Run(400, seconds, 0.1, [seconds / 10]) for seconds in (1.0, 9.0, 2.0)]
    (row,) = build.rows({20: runs})
    assert list(row)[:4] == FIELDS["build"].split()
    assert (row["tokens"], row["seconds"], row["add_to_injectable_s"]) == (400, 2.0, 0.2)


def test_the_last_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    _output.show("build", "a machine", [{"items": 1}], as_json=True)
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert list(found) == ["name", "command", "machine", "versions", "rows"]
    assert found["name"] == "build"
    assert found["rows"] == [{"items": 1}]
    assert "python" in found["versions"]


def test_without_json_it_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    _output.show("ttft", "", [{"items": 5, "copy_ms": None, "ms": 0.01234}], as_json=False)
    head, line = (text.split() for text in capsys.readouterr().out.splitlines())
    assert head == ["items", "copy_ms", "ms"]
    assert line == ["5", "–", "0.0123"]


def test_settings_of_another_sidecar_do_not_reach_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setenv("INFERSCALE_SERVER_PORT", "1")
    monkeypatch.setenv("INFERSCALE_ENGINE_SECRET", "somebody else's secret")
    env = _sidecar._environment(tmp_path, "ours")
    assert {k: v for k, v in env.items() if k.startswith("INFERSCALE_")} == {
        "INFERSCALE_HOME": str(tmp_path),
        "INFERSCALE_ENGINE_SECRET": "ours",
    }


def test_load_counts_what_came_in_time_apart_from_what_came():
    slices = [
        load.Slice([load.Served(0.2, 1.0), load.Served(0.4, 2.0)], seconds=2.0),
        load.Slice([load.Served(0.6, 1.0, 0.3), load.Served(5.0, 6.0)], seconds=6.0, declined=1),
    ]
    row = load.row(1.0, "injected", slices, [load.Slice([load.Served(1.0, 2.0)], seconds=4.0)])
    assert list(row) == FIELDS["load"].split()
    assert (row["ratio"], row["declined"]) == (2.0, 1) and 290 < row["p99_stall_ms"] <= 300
    assert (row["p50_ttft_ms"], row["throughput_rps"], row["goodput_rps"]) == (500, 0.5, 0.38)
    assert 4800 < row["p99_ttft_ms"] <= 5000 and row["requests"] == 4


@pytest.mark.parametrize(
    ("report", "counts"),
    [
        ({"injected": 900, "reason": None}, 0),
        ({"injected": 900, "reason": "native_hit"}, 0),
        ({"injected": 900, "reason": "items_missing"}, 1),
        ({"injected": 0, "reason": None}, 1),
    ],
)
def test_load_takes_no_request_for_injected_that_was_not(report, counts):
    def answer(request: httpx.Request) -> httpx.Response:
        is_one = request.url.path == "/inferscale/reports/bench-7"
        return httpx.Response(200, json=report if is_one else {"injected": 9, "reason": None})

    http = httpx.Client(base_url="http://engine", transport=httpx.MockTransport(answer))
    names = [f"bench-{n}" for n in range(20)]
    assert load.declined(http, names) == counts
    if counts:
        with pytest.raises(SystemExit, match="1 of 5 were not injected"):
            load.declined(http, names[5:10])


def test_load_arrives_at_its_rate_whatever_becomes_of_it():
    at = load.arrivals(20.0, 50.0, random.Random(1))
    assert at == sorted(at) and at[0] > 0 and at[-1] < 50
    assert 800 < len(at) < 1200
    assert load.arrivals(None, 50.0, random.Random(1)) == [0.0] * load.BURST
    assert load.arrivals(1e-9, 1.0, random.Random(1)) == [0.0], "never nothing"


def test_a_row_of_turns_has_the_named_fields_and_medians():
    arm = turns.Arm("behind", "injected", "last", prepared=True)
    samples = [
        turns.Sample(ms, 1000, 90, 30, right, "last", "injected")
        for ms, right in ((50, True), (70, False), (60, True), (55, True))
    ]
    row = turns.row(arm, samples)
    assert list(row)[:10] == FIELDS["turns"].split()
    assert (row["tokens"], row["ttft_ms"], row["right"], row["samples"]) == (1120, 57.5, 0.75, 4)


def test_turns_has_every_arm_once_and_takes_text_only_in_full():
    quick, full = turns.arms(quick=True), turns.arms(quick=False)
    assert len(set(full)) == len(full) == 10 and set(quick) < set(full)
    assert {arm.memory for arm in quick} == {"injected"}
    assert {(arm.position, arm.prepared) for arm in quick} == {
        *(("system", False), ("last", True), ("last", False)),
    }
