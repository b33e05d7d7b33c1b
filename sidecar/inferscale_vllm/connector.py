"""The class that vLLM loads: maps the connector contract onto the two halves, and lets nothing
escape.

    --kv-transfer-config '{"kv_connector": "InferScaleConnector",
                           "kv_connector_module_path": "inferscale_vllm.connector", "kv_role":
                           "kv_both"}'

Contract: vLLM `KVConnectorBase_V1` (0.32, 0.33). No hook raises: a bug of ours turns a request into
    plain text,
or, after a promise, fails that one request.
"""

import logging
from contextlib import nullcontext
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)
from vllm.distributed.parallel_state import get_world_group

from inferscale_vllm import selftest
from inferscale_vllm.assemble import make_scheduler
from inferscale_vllm.bank import BankRefused
from inferscale_vllm.cost import StepMeter
from inferscale_vllm.layers import UnsupportedModel, find_layers
from inferscale_vllm.metadata import StepMetadata
from inferscale_vllm.observe import find_model, observe
from inferscale_vllm.rotary import rope_table
from inferscale_vllm.scheduler import Scheduler
from inferscale_vllm.settings import Settings
from inferscale_vllm.state import open_state
from inferscale_vllm.support import unsupported
from inferscale_vllm.worker import Worker

logger = logging.getLogger(__name__)


class InferScaleConnector(KVConnectorBase_V1, SupportsHMA):
    """Builds, keeps and injects the KV of memory items."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._settings = Settings.of(vllm_config)
        self._state = open_state(self._settings.state_path)
        self._scheduler: Scheduler | None = None
        self._worker: Worker | None = None
        self._meter: StepMeter | None = None
        if role is KVConnectorRole.SCHEDULER:
            self._scheduler = make_scheduler(
                vllm_config, kv_cache_config, self._settings, self._state
            )

    @property
    def requires_kv_delivery(self) -> bool:
        return False

    # -- worker side

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        """Finds the layers, runs the self-test; switches injection off if the model does not pass
        it."""
        try:
            self._worker = self._make_worker()
        except (UnsupportedModel, BankRefused) as error:
            self._switch_off("unsupported_model", str(error))
        except Exception as error:  # the engine must come up without us
            logger.exception("InferScale: start-up failed")
            self._switch_off("error", f"{type(error).__name__}: {error}")

    def _make_worker(self) -> Worker | None:
        reason = unsupported(self._vllm_config, self._kv_cache_config)
        if reason:
            return None
        layers = find_layers(self._vllm_config, self._kv_cache_config)
        model = find_model(layers)
        rope = rope_table(model, layers, observe(model, layers, self._vllm_config))
        dtype = self._vllm_config.model_config.dtype
        rank = get_world_group().rank_in_group
        settings = self._settings
        bank = settings.open_bank(rank)
        layout = {"dtype": str(dtype), "token_shape": list(layers.token_shape)}
        bank.file.claim("layout", layout, "written with another layout of KV")
        bank.file.write_note("model", str(self._vllm_config.model_config.model))
        worker = Worker(
            layers=layers,
            rope=rope,
            bank=bank,
            state=self._state,
            dtype=dtype,
            verify_writes=settings.verify_writes,
            rank=rank,
            store_dtype=settings.kv_store_dtype,
        )
        worker.use_arenas(host_bytes=settings.host_arena_bytes, hbm_bytes=settings.hbm_arena_bytes)
        result = selftest.run(layers, worker.capturer, dtype)
        self._state.note("self_test", {"passed": result.passed, "detail": result.detail})
        self._state.note(
            "layout", {"num_layers": len(layers.names), "kv_bytes_per_token": worker.token_bytes}
        )
        if not result.passed:
            self._switch_off("disabled", result.detail)
        logger.info("InferScale: %s", result.detail)
        if layers.modules[0].kv_cache.device.type == "cpu":
            self._meter = StepMeter(self._state)
        return worker

    def _switch_off(self, reason: str, detail: str) -> None:
        logger.warning("InferScale: injection is off: %s", detail)
        self._state.note("injection", {"enabled": False, "reason": detail})
        self._state.note("self_test", {"passed": False, "detail": detail})

    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        super().bind_connector_metadata(connector_metadata)
        if self._worker and isinstance(connector_metadata, StepMetadata):
            if self._meter:
                self._meter.begin(connector_metadata)
            self._worker.bind(connector_metadata)

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        if self._worker:
            with self._meter.injecting() if self._meter else nullcontext():
                self._worker.load()

    def wait_for_layer_load(self, layer_name: str) -> None:
        """All layers are filled in `start_load_kv`."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """Capture wraps the cache writers instead: packed caches cannot be read in place."""

    def wait_for_save(self) -> None:
        if self._worker:
            if self._meter:
                self._meter.end()
            self._worker.store()
            self._worker.fetch()

    def get_finished(self, finished_req_ids: set[str]) -> tuple[None, None]:
        if self._worker:
            self._worker.capturer.forget(finished_req_ids)
        return None, None

    def get_block_ids_with_load_errors(self) -> set[int]:
        return self._worker.take_failed_block_ids() if self._worker else set()

    def shutdown(self) -> None:
        if self._worker:
            self._worker.writer.close()

    # -- scheduler side

    def bind_kv_cache_manager(self, kv_cache_manager: Any) -> None:
        super().bind_kv_cache_manager(kv_cache_manager)
        if self._scheduler:
            self._scheduler.bind(kv_cache_manager)

    def on_new_request(self, request: Any) -> None:
        if self._scheduler:
            try:
                self._scheduler.arrive(request)
            except Exception:  # noqa: BLE001 - see the module docstring
                self._failed(request, "planning")

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        if self._scheduler:
            try:
                return self._scheduler.match(request, num_computed_tokens), False
            except Exception:  # noqa: BLE001 - see the module docstring
                self._failed(request, "matching")
        return 0, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if self._scheduler:
            try:
                self._scheduler.admit(request, blocks, num_external_tokens)
            except Exception:  # noqa: BLE001 - see the module docstring
                self._failed(request, "admission")
                if num_external_tokens:
                    self._scheduler.abandon(blocks)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        if self._scheduler:
            return self._scheduler.step(scheduler_output)
        return StepMetadata()

    def request_finished(
        self, request: Any, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        if self._scheduler:
            try:
                return False, self._scheduler.finish(request)
            except Exception:  # noqa: BLE001 - see the module docstring
                self._failed(request, "the end")
        return False, None

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, [])

    def reset_cache(self) -> bool | None:
        if self._scheduler:
            self._scheduler.clear()
        return True

    def _failed(self, request: Any, where: str) -> None:
        logger.exception("InferScale: %s of request %s failed", where, request.request_id)
        if self._scheduler:
            self._scheduler.fail(request)
