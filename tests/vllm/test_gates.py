"""The promises of injection, each checked on real vLLM with a real model.

A build names its prompt's blocks in vLLM's prefix cache like any other request, so every build here
carries a `cache_salt` of its own: what is compared is never a hit on the build.
"""

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inferscale.protocol.engine import (
    Capture,
    Shown,
    build_params,
    inject_params,
    item_key,
    show_params,
)
from inferscale_kernels.ops.inject import rotate
from inferscale_kernels.rope import RopeTable
from inferscale_vllm.bank import Bank

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

SECRET = "a secret of the tests"
ROPE_THETA = 100_000.0  # the demo model's


def build(engine: Any, made: Any, request_id: str, **options: Any) -> Any:
    params = made.build(request_id, **options)
    return engine.complete(made.prompt(), params, tokens=1, cache_salt=f"salt of {request_id}")


def bank_of(engine: Any) -> Path:
    [path] = engine.bank_dir.glob("*/rank0")
    found: Path = path
    return found


class TestExactWhereBuilt:
    def test_bytes_and_logits(self, engine: Any, new_list: Any) -> None:
        """At the build position the cache holds the captured bytes, and the logits are those of a
        native hit.

        Head and items fill exactly one block of 128 tokens, so that the native hit and the
        injection end at the same token and the forward pass behind them has the same shape.
        """
        made = new_list(1, head=20, sizes=[18] * 6)
        build(engine, made, "exact build")
        cold = engine.complete(made.prompt())
        native = engine.complete(made.prompt())
        assert native.cached_tokens == 128
        injected = engine.complete(
            made.prompt(), made.inject("exact"), cache_salt="another salt, so no native hit"
        )
        assert injected.report["injected"] == 128
        assert engine.http.get("/inferscale/reports/exact").json()["max_error"] == 0.0
        assert injected.bits == native.bits
        assert cold.token_ids == native.token_ids

    def test_unaligned_claim_ends_inside_a_block(self, engine: Any, new_list: Any) -> None:
        made = new_list(2, head=20, sizes=[17] * 9)
        build(engine, made, "unaligned build")
        answer = engine.complete(made.prompt(), made.inject("unaligned"))
        assert answer.report["injected"] == 20 + 17 * 9
        assert answer.report["prefilled"] == len(made.tail)
        # A cold run prefills all tokens in one batch, an injected one only the tail: rounding of
        # bf16 matrix products differs with the batch shape, as it does between vLLM's own cold run
        # and hit.
        cold = engine.complete(made.prompt(), cache_salt="cold")
        assert (
            max(abs(a - b) for a, b in zip(answer.logprobs[:1], cold.logprobs[:1], strict=True))
            < 0.1
        )


class TestNeverPoisoned:
    """vLLM's exact prefix cache must not know that injection exists."""

    def test_exact_after_injected(self, engine: Any, plain_engine: Any, new_list: Any) -> None:
        made = new_list(3, sizes=[25] * 20)
        build(engine, made, "poison build")
        order = random.Random(3).sample(range(20), 20)
        prompt = made.prompt(order)
        injected = engine.complete(prompt, made.inject("poison", order), tokens=150)
        assert injected.report["injected"] == 520
        continued = [*prompt, *injected.token_ids]
        for ids in (prompt, continued):
            assert engine.complete(ids).bits == plain_engine.complete(ids).bits

    def test_block_that_generated_tokens_complete(
        self, engine: Any, plain_engine: Any, new_list: Any
    ) -> None:
        """A prompt shorter than a block: its first block gets its name only while decoding."""
        made = new_list(9, sizes=[15] * 4)
        build(engine, made, "short build")
        injected = engine.complete(made.prompt(), made.inject("short"), tokens=150)
        assert injected.report["injected"] == 80
        continued = [*made.prompt(), *injected.token_ids]
        exact = engine.complete(continued)
        assert exact.cached_tokens == 0
        assert exact.bits == plain_engine.complete(continued).bits

    def test_injected_after_exact(self, engine: Any, plain_engine: Any, new_list: Any) -> None:
        made = new_list(4, sizes=[25] * 20)
        build(engine, made, "exact first build")
        order = random.Random(4).sample(range(20), 20)
        prompt = made.prompt(order)
        expected = [plain_engine.complete(prompt).bits for _ in range(2)]
        assert engine.complete(prompt).bits == expected[0]
        again = engine.complete(prompt, made.inject("exact first", order))
        assert again.report["native"] >= 512
        assert again.report["injected"] == 520 - again.report["native"]
        assert engine.complete(prompt).bits == expected[1]

    def test_two_compositions_with_equal_tokens(self, engine: Any, new_list: Any) -> None:
        """The same tokens encoded behind different neighbours are different KV, and never share a
        block."""
        made, other = new_list(5, sizes=[30] * 8), new_list(6, sizes=[30] * 8)
        build(engine, made, "equal build")
        keys, captures, context = [], [], [*made.head, *other.items[0]]
        for item in made.items:
            keys.append(item_key(b"tenant salt", "demo", "test", context, item))
            captures.append(Capture(keys[-1], len(context), len(context) + len(item)))
            context += item
        params = build_params(SECRET, request_id="equal other", salt="tenant-a", captures=captures)
        engine.complete([*context, *made.tail], params, tokens=1, cache_salt="equal other")
        first = engine.complete(made.prompt(), made.inject("equal 1"))
        second = engine.complete(
            made.prompt(),
            inject_params(SECRET, request_id="equal 2", salt="tenant-a", items=keys),
        )
        assert first.report["injected"] == second.report["injected"] == 260
        assert first.logprobs != second.logprobs


class TestShifted:
    def test_layer_0_keys_equal_a_native_prefill(self, engine: Any, new_list: Any) -> None:
        """K of layer 0 depends on token and position only: moved, it must be what a prefill
        computes there.

        Tolerance: the model rounds cos and sin to bf16 (2**-9 relative) before it multiplies, twice
            (at the
        build position and at the new one), and rounds the result; the moved K carries both errors.
        """
        made = new_list(7, sizes=[16] * 8)
        build(engine, made, "shift build")
        order = [7, 6, 5, 4, 3, 2, 1, 0]
        keys = [f"{index:064x}" for index in range(8)]
        captures = [Capture(keys[i], 20 + 16 * i, 36 + 16 * i) for i in range(8)]
        params = build_params(SECRET, request_id="shift 2", salt="tenant-a", captures=captures)
        engine.complete(made.prompt(order), params, tokens=1, cache_salt="shift 2")
        bank = Bank(bank_of(engine), limit_bytes=2**30)
        built, native = (
            _layer_0_keys(bank, k) for k in (made.keys, [keys[order[i]] for i in range(8)])
        )
        bank.close()
        frequencies = ROPE_THETA ** (-torch.arange(0, 64, 2, dtype=torch.float32) / 64)
        for index in range(8):
            shift = (20 + 16 * order.index(index)) - (20 + 16 * index)
            item = torch.stack((built[index], torch.zeros_like(built[index])), 1)[
                :, None
            ].contiguous()
            moved = rotate(
                item, torch.tensor([[0, 16, shift, 0]]), RopeTable.uniform(frequencies, 1)
            ).k[0]
            scale = native[index].float().abs().max().item()
            error = (moved.float() - native[index].float()).abs().max().item()
            assert error <= 2**-6 * scale, (index, error, scale)


def _layer_0_keys(bank: Bank, keys: list[str]) -> list[torch.Tensor]:
    with bank.reading() as reader:
        blobs = [bytes(reader.kv(key) or b"") for key in keys]
    shape = (-1, 30, 2, 3, 64)
    return [
        torch.from_numpy(np.frombuffer(b, np.int16).copy())
        .view(torch.bfloat16)
        .view(shape)[:, 0, 0]
        for b in blobs
    ]


class TestReuse:
    def test_second_call_and_second_turn_are_native_hits(self, engine: Any, new_list: Any) -> None:
        made = new_list(8, sizes=[26] * 20)
        build(engine, made, "reuse build")
        order = random.Random(8).sample(range(20), 20)
        prompt = made.prompt(order)
        first = engine.complete(prompt, made.inject("reuse 1", order), tokens=130)
        assert first.report["native"] == 0 and first.report["injected"] == 540
        second = engine.complete(prompt, made.inject("reuse 2", order), tokens=130)
        assert second.report["native"] == 512 and second.report["injected"] == 28
        assert second.token_ids == first.token_ids
        turn = [*prompt, *first.token_ids, *made.tail]
        answer = engine.complete(turn, made.inject("reuse 3", order))
        assert answer.report["native"] >= 640 and answer.report["injected"] == 0


class TestForgotten:
    """What is deleted leaves vLLM's own prefix cache, however it came there."""

    def test_exact_text(self, engine: Any, plain_engine: Any, new_list: Any) -> None:
        """An item that was shown as text: gone from where it began, and cold again."""
        made = new_list(50, head=130, sizes=[30] * 20)
        shows = [Shown(tuple(made.head[:8]), tuple((_name(k), k) for k in made.keys))]
        params = show_params(SECRET, request_id="show", salt="tenant-a", shows=shows)
        build(engine, made, "forgotten build")  # so that the items' tokens are known
        cold = engine.complete(made.prompt(), params)
        hit = engine.complete(made.prompt(), params)
        assert (cold.cached_tokens, hit.cached_tokens) == (0, 640)
        before = engine.status()["prefix_cache"]
        engine.post("/inferscale/items/delete", {"keys": [], "texts": [_name(made.keys[10])]})
        assert engine.status()["prefix_cache"]["waiting"] == 1
        start = 130 + 10 * 30
        assert engine.complete(made.prompt()).cached_tokens == start // 128 * 128
        after = engine.status()["prefix_cache"]
        assert after == {"forgotten_blocks": before["forgotten_blocks"] + 2, "waiting": 0}
        engine.post("/inferscale/items/delete", {"keys": [], "texts": [_name(made.keys[0])]})
        again = engine.complete(made.prompt())
        plain_engine.complete([*made.head[:128], 5, 6], tokens=1)
        expected = plain_engine.complete(made.prompt())
        assert again.cached_tokens == expected.cached_tokens == 128
        assert again.bits == expected.bits

    def test_injected(self, engine: Any, plain_engine: Any, new_list: Any) -> None:
        made = new_list(51, sizes=[25] * 20)
        build(engine, made, "forgotten injected build")
        order = random.Random(51).sample(range(20), 20)
        prompt = made.prompt(order)
        engine.complete(prompt, made.inject("forgotten 1", order), tokens=2)
        hit = engine.complete(prompt, made.inject("forgotten 2", order), tokens=2)
        assert hit.report["native"] == 512
        before = engine.status()["prefix_cache"]["forgotten_blocks"]
        gone = made.keys[order[10]]
        assert engine.delete([gone]) == 1
        third = engine.complete(prompt, made.inject("forgotten 3", order), tokens=2)
        start = 20 + 10 * 25
        # Without the item the blocks have other names, so only this tells that the old ones went.
        gone_blocks = engine.status()["prefix_cache"]["forgotten_blocks"] - before
        assert gone_blocks == 512 // 128 - start // 128
        assert third.report["native"] <= start
        assert third.report["native"] + third.report["injected"] == start
        exact = engine.complete(prompt)
        assert exact.cached_tokens == 0 and exact.bits == plain_engine.complete(prompt).bits

    def test_a_request_that_runs_meanwhile_ends_as_usual(self, engine: Any, new_list: Any) -> None:
        made = new_list(52, head=130, sizes=[30] * 10)
        shows = [Shown((), tuple((_name(k), None) for k in made.keys))]
        params = show_params(SECRET, request_id="runs", salt="tenant-a", shows=shows)
        engine.complete(made.prompt(), params, tokens=1)
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(engine.complete, made.prompt(), params, tokens=200)
            _wait_until_running(engine)
            engine.post("/inferscale/items/delete", {"keys": [], "texts": [_name(made.keys[0])]})
            other = engine.complete(made.prompt(), tokens=1)
            assert not running.done(), "it was to be deleted from under a running request"
            answer = running.result()
        assert other.cached_tokens == 0
        assert len(answer.token_ids) == 200 and engine.is_alive()
        continued = [*made.prompt(), *answer.token_ids]
        assert engine.complete(continued, tokens=1).cached_tokens <= 384


def _name(key: str) -> str:
    """By which the text of this item is forgotten."""
    return f"memory {key[:16]}"


def _wait_until_running(engine: Any) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for line in engine.http.get("/metrics").text.splitlines():
            if line.startswith("vllm:num_requests_running") and not line.endswith(" 0.0"):
                return
    raise AssertionError("the request is not running")


class TestFallback:
    """Whatever is missing, the answer is that of plain prefill, and the report says why."""

    def expect_plain(
        self, engine: Any, plain: Any, made: Any, request_id: str, reason: str
    ) -> None:
        answer = engine.complete(made.prompt(), made.inject(request_id))
        report = engine.http.get(f"/inferscale/reports/{request_id}").json()
        assert (report["injected"], report["reason"]) == (0, reason)
        assert answer.bits == plain.complete(made.prompt()).bits

    def test_empty_bank(self, engine: Any, plain_engine: Any, new_list: Any) -> None:
        self.expect_plain(engine, plain_engine, new_list(20), "nothing built", "items_missing")

    def test_half_built(self, engine: Any, new_list: Any) -> None:
        made = new_list(21, sizes=[20] * 8)
        build(engine, made, "half build")
        assert engine.delete(made.keys[4:]) == 4
        answer = engine.complete(made.prompt(), made.inject("half"))
        assert answer.report["reason"] == "items_missing"
        assert answer.report["injected"] == 20 + 4 * 20

    def test_deleted(self, engine: Any, plain_engine: Any, new_list: Any) -> None:
        made = new_list(22)
        build(engine, made, "deleted build")
        assert engine.delete(made.keys) == len(made.keys)
        assert engine.present(made.keys) == []
        self.expect_plain(engine, plain_engine, made, "deleted", "items_missing")

    def test_corrupted(self, engine: Any, plain_engine: Any, new_list: Any) -> None:
        """Flipped bytes in the bank's file: found by the checksum before anything is promised."""
        made = new_list(23)
        build(engine, made, "corrupt build")
        path = bank_of(engine) / "data.mdb"
        with Bank(bank_of(engine), limit_bytes=2**30).reading() as reader:
            pieces = [bytes(reader.kv(key) or b"")[:64] for key in made.keys]
        content = path.read_bytes()
        with path.open("r+b") as file:
            for piece in pieces:
                at = content.index(piece)
                file.seek(at)
                file.write(bytes(byte ^ 0x40 for byte in piece))
        self.expect_plain(engine, plain_engine, made, "corrupt", "items_missing")
        assert made.keys[0] not in engine.present(made.keys), "a broken item must be built again"
        build(engine, made, "corrupt build again")
        healed = engine.complete(made.prompt(), made.inject("healed"), cache_salt="healed")
        assert healed.report["injected"] > 0

    def test_switched_off_and_on(self, engine: Any, plain_engine: Any, new_list: Any) -> None:
        made = new_list(24)
        build(engine, made, "switch build")
        engine.post("/inferscale/injection", {"enabled": False, "reason": "a test"})
        assert engine.status()["injection"] == {"enabled": False, "reason": "a test"}
        self.expect_plain(engine, plain_engine, made, "switched off", "disabled")
        engine.post("/inferscale/injection", {"enabled": True})
        other = new_list(25)
        build(engine, other, "switched on build")
        assert engine.complete(other.prompt(), other.inject("on")).report["injected"] > 0

    def test_prefix_at_first_sight(self, engine: Any, new_list: Any) -> None:
        """Unknown tokens before the first item: that request is plain prefill, and captures
        them."""
        made = new_list(26)
        params = made.build("first sight")
        params["inferscale"].pop("prefix_end")
        build_without_prefix = build_params(
            SECRET,
            request_id="first sight",
            salt="tenant-a",
            captures=[Capture(*c) for c in params["inferscale"]["captures"]],
        )
        engine.complete(made.prompt(), build_without_prefix, tokens=1, cache_salt="first sight")
        first = engine.complete(made.prompt(), made.inject("sight 1"), cache_salt="sight 1")
        assert (first.report["injected"], first.report["reason"]) == (0, "prefix_not_captured")
        second = engine.complete(made.prompt(), made.inject("sight 2"), cache_salt="sight 2")
        assert second.report["prefilled"] == len(made.tail)

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [({"echo": True, "prompt_logprobs": 1}, "prompt_logprobs")],
    )
    def test_forced_off(
        self, engine: Any, new_list: Any, fields: dict[str, Any], reason: str
    ) -> None:
        made = new_list(27)
        build(engine, made, "forced build")
        engine.complete(made.prompt(), made.inject("forced"), **fields)
        report = engine.http.get("/inferscale/reports/forced").json()
        assert (report["injected"], report["reason"]) == (0, reason)


class TestSecrecy:
    def test_unsigned_and_forged_operations_are_refused(self, engine: Any, new_list: Any) -> None:
        made = new_list(30)
        build(engine, made, "secret build")
        forged = inject_params("not the secret", request_id="forged", salt="x", items=made.keys)
        unsigned = {"inferscale": {"v": 1, "op": "inject", "items": made.keys}}
        for params in (forged, unsigned, {"inferscale": "nonsense"}, {"inferscale": {"v": 7}}):
            assert engine.complete(made.prompt(), params).report == {}
        assert engine.http.get("/inferscale/reports/forged").status_code == 404

    def test_control_plane_needs_the_secret(self, engine: Any) -> None:
        response = engine.http.get("/inferscale/status", headers={"x-inferscale-secret": "wrong"})
        assert response.status_code == 401

    def test_tenants_share_no_prefix(self, engine: Any, new_list: Any) -> None:
        """Another tenant's tag finds no exact prefix, even behind the same tokens."""
        made = new_list(31)
        build(engine, made, "tenant build")
        answer = engine.complete(made.prompt(), made.inject("tenant", tenant="tenant-b"))
        assert (answer.report["injected"], answer.report["reason"]) == (0, "prefix_not_captured")


class TestRestart:
    def test_items_survive_kill_9(self, start_engine: Any, new_list: Any) -> None:
        engine = start_engine()
        made = new_list(40, sizes=[18] * 6)
        build(engine, made, "restart build")
        before = engine.complete(made.prompt(), made.inject("before"), cache_salt="before")
        engine.kill()
        again = start_engine(bank_dir=engine.bank_dir)
        assert set(again.present(made.keys)) == set(made.keys)
        after = again.complete(made.prompt(), made.inject("after"), cache_salt="after")
        assert after.report["injected"] == before.report["injected"] == 128
        assert after.bits == before.bits
