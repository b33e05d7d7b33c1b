"""Where an engine keeps its things and how much it may keep: read once from vLLM's own
configuration.

Owns the reading of `kv_connector_extra_config`; every process of the engine derives the same paths.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferscale.protocol.engine import SECRET_ENV
from inferscale_vllm.bank import Bank, open_bank
from inferscale_vllm.bank.forgotten import ForgottenLog, open_forgotten
from inferscale_vllm.bank.identity import bank_id
from inferscale_vllm.fingerprint import fingerprint

DEFAULT_BANK_SIZE_BYTES = 8 * 2**30
DEFAULT_SIZES = {
    "inject_step_bytes": 256 * 2**20,
    "host_arena_bytes": 2 * 2**30,
    "hbm_arena_bytes": 0,
}
_KNOWN = {
    *DEFAULT_SIZES,
    "bank_dir",
    "bank_size_bytes",
    "bank_tenant_share",
    "kv_store_dtype",
    "verify_writes",
}
STORE_DTYPES = ("auto", "bf16", "int8", "k8v4")
"""What `kv_store_dtype` may be."""


@dataclass(frozen=True)
class Settings:
    """Attributes:
    root: folder of all banks.
    fingerprint: namespace of this engine's items.
    engine_id: vLLM's own id of this engine; names its state.
    bank_size_bytes: size limit of each rank's bank.
    bank_tenant_share: most of it that one tenant may take, 0 to 1.
    kv_store_dtype: how items are stored (`STORE_DTYPES`); bf16: in the model's dtype.
    num_ranks: worker ranks that must all hold an item before it is promised.
    verify_writes: read every injected token back and compare (tests and `doctor`).
    secret: shared with the sidecar; None: every operation is refused.
    inject_step_bytes: most that one engine step injects; 0: no limit.
    host_arena_bytes: pinned host memory of each rank that holds items for its GPU; 0: none.
    hbm_arena_bytes: GPU memory of each rank that holds items; 0: none.
    """

    root: Path
    fingerprint: str
    engine_id: str
    bank_size_bytes: int
    num_ranks: int
    verify_writes: bool
    secret: str | None
    bank_tenant_share: float = 1.0
    kv_store_dtype: str = "bf16"
    inject_step_bytes: int = DEFAULT_SIZES["inject_step_bytes"]
    host_arena_bytes: int = DEFAULT_SIZES["host_arena_bytes"]
    hbm_arena_bytes: int = DEFAULT_SIZES["hbm_arena_bytes"]

    @classmethod
    def of(cls, vllm_config: Any) -> "Settings":
        """Reads them from a `VllmConfig`.

        Raises:
            ValueError: an entry of `kv_connector_extra_config` is unknown or out of range.
        """
        extra: Mapping[str, Any] = vllm_config.kv_transfer_config.kv_connector_extra_config
        unknown = set(extra) - _KNOWN
        if unknown:
            raise ValueError(
                f"kv_connector_extra_config has unknown entries {sorted(unknown)}; "
                f"known: {', '.join(sorted(_KNOWN))}"
            )
        size_bytes = int(extra.get("bank_size_bytes", DEFAULT_BANK_SIZE_BYTES))
        if size_bytes < 2**20:
            raise ValueError(
                f"bank_size_bytes is {size_bytes}, it must be at least 1048576 (1 MiB)"
            )
        share = float(extra.get("bank_tenant_share", 1.0))
        if not 0 < share <= 1:
            raise ValueError(f"bank_tenant_share is {share}, it must be above 0 and at most 1")
        store_dtype = str(extra.get("kv_store_dtype", "bf16"))
        if store_dtype not in STORE_DTYPES:
            hint = "int8 takes the same space with a quarter of the error; " * (
                store_dtype == "fp8"
            )
            raise ValueError(
                f"kv_store_dtype {store_dtype!r} is not offered; {hint}"
                f"choose one of {', '.join(STORE_DTYPES)}"
            )
        sizes = {name: int(extra.get(name, size)) for name, size in DEFAULT_SIZES.items()}
        for name, size in sizes.items():
            if size < 0:
                raise ValueError(f"{name} is {size}, it must be a number of bytes, or 0")
        home = Path(os.environ.get("INFERSCALE_HOME", Path.home() / ".inferscale"))
        return cls(
            root=Path(extra.get("bank_dir", home / "bank")).expanduser(),
            fingerprint=fingerprint(vllm_config),
            engine_id=vllm_config.kv_transfer_config.engine_id,
            bank_size_bytes=size_bytes,
            num_ranks=vllm_config.parallel_config.world_size,
            verify_writes=bool(extra.get("verify_writes", False)),
            secret=os.environ.get(SECRET_ENV) or None,
            bank_tenant_share=share,
            kv_store_dtype=store_dtype,
            **sizes,
        )

    def bank_path(self, rank: int) -> Path:
        return self.root / self.fingerprint[:32] / f"rank{rank}"

    def open_bank(self, rank: int) -> Bank:
        """The process's one handle on a rank's bank.

        Raises:
            BankRefused: what lies there belongs to another model, or to a newer version.
        """
        return open_bank(
            self.bank_path(rank),
            limit_bytes=self.bank_size_bytes,
            fingerprint=self.fingerprint,
            tenant_share=self.bank_tenant_share,
        )

    def open_forgotten(self) -> ForgottenLog:
        """The process's one handle on the log of what is deleted. There is one even if the banks
        are refused."""
        return open_forgotten(self.bank_path(0).parent / "forgotten")

    @property
    def bank_id(self) -> str:
        """Tells this bank from others of the same fingerprint."""
        return bank_id(self.bank_path(0).parent)

    @property
    def state_path(self) -> Path:
        return self.root / "engines" / self.engine_id
