"""How a rank's items are stored: in the model's dtype, or compressed with scales of its own.

Owns the choice of the format, the calibration behind it, and packing. Invariants: scales, once
written, belong to the bank's file, so whatever it holds can be read for as long as it lives; items
that begin at position 0 hold the attention sink and are never compressed.
"""

import base64
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch

from inferscale_kernels.layout import k_plane, v_plane
from inferscale_kernels.ops.quantize import FormatName, ItemCodec, calibrate
from inferscale_kernels.rope import RopeTable
from inferscale_vllm.bank import Bank, ItemHeader, checksum
from inferscale_vllm.capture import Captured

logger = logging.getLogger(__name__)

CALIBRATION_TOKENS = 1024
"""Tokens of the model's own items that the scales are made from; these stay uncompressed."""
K_LIMIT, V_LIMIT = 0.03, 0.16
"""`auto` takes the smallest format whose error is at most this share of how much a channel of K, or
of V, differs from token to token (a part that all tokens share is no information). The demo model's
k8v4 is at 0.009 and 0.143 and moves its answers by a KL of 0.003, which grows with the square."""
_SERIAL_ELEMENTS = 32_767
"""Below it torch uses one thread. The writer must not take the cores that decode."""
_NOTE = "codec"


@dataclass(frozen=True)
class Errors:
    """The error of a format as a share of the spread of K, and of V, over layers and channels."""

    k: float
    v: float

    @property
    def is_small(self) -> bool:
        return self.k <= K_LIMIT and self.v <= V_LIMIT


class Storage:
    """One rank's formats. `pack` is called by the writer's thread, `codec` by the worker.

    Args:
        bank: keeps the scales.
        rope: rotary geometry of the layers.
        token_shape: [L, 2, H, D] of one token; [L, 1, 1, C] for MLA, which is not compressed.
        wanted: what the settings say.
        tell: told what is known of the format whenever that changes.
    """

    def __init__(
        self,
        bank: Bank,
        rope: RopeTable,
        token_shape: tuple[int, int, int, int],
        *,
        wanted: str = "bf16",
        tell: Callable[[Mapping[str, Any]], None] = lambda facts: None,
    ) -> None:
        self._bank, self._rope, self._shape, self._tell = bank, rope, token_shape, tell
        self._wanted = wanted if token_shape[1] == 2 else "bf16"
        self._codecs: dict[str, ItemCodec] = {}
        self._samples: list[torch.Tensor] = []
        self._errors: dict[str, Errors] = {}
        self._format = "plain"
        self._know(self._bank.file.note(_NOTE))
        self._say()

    @property
    def may_compress(self) -> bool:
        """Whether compressed items are read or written now or later."""
        return self._wanted != "bf16" or bool(self._codecs)

    @property
    def format(self) -> str:
        """How new items are stored: plain, int8 or k8v4."""
        return self._format

    def codec(self, name: str) -> ItemCodec | None:
        """What reads items of a format; None for plain ones.

        Raises:
            KeyError: the bank has no scales for it.
        """
        if name == "plain":
            return None
        if name not in self._codecs:  # calibrated by another engine on the same bank
            self._know(self._bank.file.note(_NOTE))
        return self._codecs[name]

    def sample_codecs(self) -> list[ItemCodec]:
        """Of all formats that may occur: codecs with scales of no meaning, to compile with."""
        layers, _, heads, size = self._shape
        names = get_args(FormatName) if self.may_compress else ()
        return [ItemCodec(torch.ones(layers, heads, size), name) for name in names]

    def pack(self, item: Captured) -> tuple[ItemHeader, memoryview]:
        """The record and bytes of an item."""
        codec = self.codec(self._format_for(item))
        if codec is None:
            kv = item.kv.view(torch.uint8).numpy().reshape(-1).data
        else:
            kv = self._encoded(codec, item.kv).numpy().reshape(-1).data
        header = ItemHeader(
            num_tokens=len(item.token_ids),
            position=item.position,
            size_bytes=len(kv),
            checksum=checksum(kv),
            token_ids=item.token_ids,
            tenant=item.tenant,
            codec="plain" if codec is None else codec.name,
            adapter=item.adapter,
        )
        return header, kv

    def _format_for(self, item: Captured) -> str:
        if self._wanted == "bf16" or item.position == 0:
            return "plain"
        if not self._codecs:
            self._calibrate(item.kv)
            return "plain"
        return self._format

    def _encoded(self, codec: ItemCodec, kv: torch.Tensor) -> torch.Tensor:
        layers, _, heads, size = self._shape
        step = max(1, _SERIAL_ELEMENTS // (layers * heads * size))
        return torch.cat([codec.encode(kv[at : at + step]) for at in range(0, len(kv), step)])

    def _calibrate(self, kv: torch.Tensor) -> None:
        """Collects tokens until there are enough, then fixes the scales and the format."""
        self._samples.append(kv)
        if sum(len(sample) for sample in self._samples) < CALIBRATION_TOKENS:
            return
        items = torch.cat(self._samples)
        scale = calibrate(items, self._rope)
        errors = {name: _errors(ItemCodec(scale, name), items) for name in get_args(FormatName)}
        note = {
            "shape": list(scale.shape),
            "k_scale": base64.b64encode(scale.numpy().tobytes()).decode(),
            "errors": {name: [error.k, error.v] for name, error in errors.items()},
        }
        if self._bank.file.note(_NOTE) is None:
            self._bank.file.write_note(_NOTE, note)
        self._samples.clear()
        self._know(self._bank.file.note(_NOTE))
        self._say()
        logger.info("InferScale: items are stored as %s from now on (%s)", self._format, errors)

    def _know(self, note: Mapping[str, Any] | None) -> None:
        """Takes the bank's scales, and chooses what new items are stored as."""
        if note is None:
            return
        raw = np.frombuffer(base64.b64decode(note["k_scale"]), np.float32)
        scale = torch.from_numpy(raw.copy()).view(*note["shape"])
        self._errors = {name: Errors(*pair) for name, pair in note["errors"].items()}
        self._codecs = {name: ItemCodec(scale, name) for name in get_args(FormatName)}
        if self._wanted == "auto":
            small = (name for name in ("k8v4", "int8") if self._errors[name].is_small)
            self._format = next(small, "plain")
        else:
            self._format = "plain" if self._wanted == "bf16" else self._wanted

    def _say(self) -> None:
        layers, planes, heads, size = self._shape
        plain = layers * planes * heads * size * 2
        codec = self._codecs.get(self._format)
        self._tell(
            {
                "wanted": self._wanted,
                "format": self._format,
                "is_calibrated": bool(self._codecs),
                "bytes_per_token": plain if codec is None else codec.token_bytes,
                "bf16_bytes_per_token": plain,
                "errors": {name: [error.k, error.v] for name, error in self._errors.items()},
            }
        )


def _errors(codec: ItemCodec, items: torch.Tensor) -> Errors:
    """What a format does to items [T, L, 2, H, D]."""
    decoded = codec.decode(codec.encode(items), torch.float32)
    shares = [
        _share(plane(decoded) - plane(items).float(), plane(items).float())
        for plane in (k_plane, v_plane)
    ]
    return Errors(*shares)


def _share(error: torch.Tensor, values: torch.Tensor) -> float:
    """Root mean square over layers and channels of rms(error) / deviation over tokens."""
    spread = values.var(dim=0, correction=0).clamp_min(1e-12)
    return float((error.square().mean(dim=0) / spread).mean().sqrt())
