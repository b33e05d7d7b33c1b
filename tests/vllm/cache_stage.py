"""vLLM's own cache manager and requests, without an engine, under a `Forgetter`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from vllm import SamplingParams
from vllm.utils.hashing import get_hash_fn_by_name
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SlidingWindowSpec,
)
from vllm.v1.request import Request

from inferscale.protocol.engine import Shown
from inferscale_vllm.bank import ItemHeader
from inferscale_vllm.bank.forgotten import ForgottenLog
from inferscale_vllm.forget import Forgetter
from inferscale_vllm.operation import Build, Operation, Show
from inferscale_vllm.report import Reporter
from inferscale_vllm.state import EngineState

SIZE = 4
HASH = get_hash_fn_by_name("sha256")


class CacheStage:
    """Requests are looked up, allocated, decoded and freed as vLLM's scheduler does it.

    Args:
        folder: for the log and the engine's state.
        num_blocks: of the pool.
        window: tokens of a second group's sliding window; 0: there is one group.
        items: token ids of the bank's items by key.
    """

    def __init__(
        self,
        folder: Path,
        *,
        num_blocks: int = 64,
        window: int = 0,
        items: dict[str, list[int]] | None = None,
    ) -> None:
        init_none_hash(HASH)
        common: dict[str, Any] = {"num_kv_heads": 1, "head_size": 1, "dtype": torch.float32}
        specs: list[Any] = [FullAttentionSpec(block_size=SIZE, **common)]
        if window:
            specs.append(SlidingWindowSpec(block_size=SIZE, sliding_window=window, **common))
        groups = [KVCacheGroupSpec([f"layer {n}"], spec) for n, spec in enumerate(specs)]
        config = KVCacheConfig(num_blocks, [], groups)
        self.manager = KVCacheManager(config, 4096, SIZE, SIZE)
        self.pool = self.manager.block_pool
        self.log = ForgottenLog(folder / "forgotten")
        self.state = EngineState(folder / "state")
        self.items = items or {}
        self.forgetter = self.make_forgetter(len(groups))
        self._hasher = get_request_block_hasher(SIZE, HASH)
        self._number = 0

    def make_forgetter(self, num_groups: int = 1) -> Forgetter:
        forgetter = Forgetter(
            log=self.log,
            headers=self._headers,
            hash_function=HASH,
            reporter=Reporter(self.state),
        )
        forgetter.bind(self.pool, num_groups)
        return forgetter

    def _headers(self, keys: Sequence[str]) -> list[ItemHeader | None]:
        known = [self.items.get(key) for key in keys]
        return [
            ItemHeader(len(ids), 0, 0, 0, np.asarray(ids, np.int32)) if ids else None
            for ids in known
        ]

    def arrive(
        self, tokens: list[int], operation: Operation | None = None, *, salt: str = "tenant"
    ) -> Request:
        self._number += 1
        params = SamplingParams(max_tokens=1000)
        request = Request(
            f"r{self._number}",
            tokens,
            params,
            None,
            cache_salt=salt,
            block_hasher=self._hasher,
        )
        self.forgetter.catch_up()
        self.forgetter.arrive(request, operation)
        self.forgetter.planned(request.request_id, ())
        return request

    def run(self, request: Request, num_tokens: int | None = None) -> int:
        """Computes a prompt, or so much of it; returns how many tokens the cache had."""
        blocks, hit, *_ = self.manager.get_computed_blocks(request)
        new = (num_tokens or request.num_tokens) - hit
        assert self.manager.allocate_slots(request, new, hit, blocks) is not None
        request.num_computed_tokens = hit + new
        return hit

    def compute(self, request: Request, num_tokens: int) -> None:
        """So many more tokens of a request that is running."""
        assert self.manager.allocate_slots(request, num_tokens) is not None
        request.num_computed_tokens += num_tokens

    def decode(self, request: Request, tokens: list[int]) -> None:
        for token in tokens:
            request.append_output_token_ids(token)
            self.compute(request, 1)

    def finish(self, request: Request) -> None:
        self.forgetter.finish(request)
        self.manager.free(request)

    def serve(self, tokens: list[int], operation: Operation | None = None, **options: Any) -> int:
        """A whole request; returns how many tokens the cache had."""
        request = self.arrive(tokens, operation, **options)
        hit = self.run(request)
        self.finish(request)
        return hit

    def delete(self, *texts: str) -> None:
        self.log.add(texts)

    @property
    def cached_names(self) -> set[bytes]:
        """Names of all cached blocks, with the group behind each."""
        return set(self.pool.cached_block_hash_to_block._cache)


def shown(*texts: str | tuple[str, str], after: Sequence[int] = ()) -> Show:
    """A request that shows these texts: names, or names with keys."""
    pairs = tuple((text, None) if isinstance(text, str) else text for text in texts)
    return Show("id", "salt", (Shown(tuple(after), pairs),))


def scratch() -> Build:
    return Build("id", "salt", (), None, is_scratch=True)


StageMaker = Callable[..., CacheStage]
