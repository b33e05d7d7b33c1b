"""Records of the bank: what is known of an item besides its KV, and the counts of a tenant.

Owns their bytes and the format's version. Does not own where they are kept (`store.py`).
"""

import hashlib
import struct
from dataclasses import dataclass, replace

import numpy as np
import xxhash

FORMAT = 2
"""Version of the bank's file. A file of an older one is emptied (KV is derived data), a file of a
newer one refused."""
CODECS = ("plain", "int8", "k8v4")
"""How an item's KV is stored: in the model's dtype, or compressed (kernels, `ops/quantize`)."""
NOBODY = bytes(8)
NO_ADAPTER = bytes(7)
PAGE_BYTES = 4096
_PAGE_HEAD, _NODE_BYTES = 16, 56
_MAGIC = b"ISK2"
_HEADER = struct.Struct("<4sIIIqqQ8sB7s")
# magic, num_tokens, position, kv bytes, retired ns, written ns, checksum, tenant, codec, adapter
_CODEC_AT = struct.calcsize("<4sIIIqqQ8s")
_COUNT = struct.Struct("<qq")


@dataclass(frozen=True)
class ItemHeader:
    """What the scheduler needs to know of an item, without its KV.

    Attributes:
        num_tokens: length T of the item.
        position: position that its first token was computed at (K is stored post-RoPE).
        size_bytes: bytes of its KV: `[T, L, 2, H, D]` in the model's dtype, or T rows of a codec.
        checksum: xxh3-64 of the KV bytes.
        token_ids: int32 [T].
        tenant: whose it is (`tenant_of`), 8 bytes.
        codec: one of `CODECS`.
        adapter: LoRA adapter that it was computed with (`fingerprint.adapter_of`), 7 bytes.
        written_ns: when it was stored (Unix time); 0 = now.
        retired_ns: when it was taken out of service; 0 = it is live.
    """

    num_tokens: int
    position: int
    size_bytes: int
    checksum: int
    token_ids: np.ndarray
    tenant: bytes = NOBODY
    codec: str = "plain"
    written_ns: int = 0
    retired_ns: int = 0
    adapter: bytes = NO_ADAPTER

    def packed(self) -> bytes:
        head = _HEADER.pack(
            _MAGIC,
            self.num_tokens,
            self.position,
            self.size_bytes,
            self.retired_ns,
            self.written_ns,
            self.checksum,
            self.tenant,
            CODECS.index(self.codec),
            self.adapter,
        )
        return head + self.token_ids.astype(np.int32).tobytes()

    @classmethod
    def unpack(cls, value: bytes | memoryview) -> "ItemHeader | None":
        """Reads a record; None if it is none."""
        if len(value) < _HEADER.size:
            return None
        magic, tokens, position, size, retired, written, checksum, tenant, codec, adapter = (
            _HEADER.unpack_from(value)
        )
        if magic != _MAGIC or len(value) != _HEADER.size + 4 * tokens or codec >= len(CODECS):
            return None
        ids = np.frombuffer(value, np.int32, offset=_HEADER.size).copy()
        name = CODECS[codec]
        return cls(tokens, position, size, checksum, ids, tenant, name, written, retired, adapter)

    @staticmethod
    def codec_of(value: bytes | memoryview) -> str:
        """How the KV of a record's item is stored, without reading the rest."""
        return CODECS[value[_CODEC_AT]]

    def retired(self, now_ns: int) -> "ItemHeader":
        """The same item, out of service."""
        return replace(self, retired_ns=now_ns)

    @property
    def cost_bytes(self) -> int:
        """What it takes in the file: whole pages for the KV, its record in pages half full."""
        pages = -(-(self.size_bytes + _PAGE_HEAD) // PAGE_BYTES)
        return pages * PAGE_BYTES + 2 * (_HEADER.size + 4 * self.num_tokens + 3 * _NODE_BYTES)


@dataclass(frozen=True)
class Count:
    """Items and bytes of one tenant, retired ones included until they are erased."""

    items: int = 0
    size_bytes: int = 0

    def packed(self) -> bytes:
        return _COUNT.pack(self.items, self.size_bytes)

    @classmethod
    def unpack(cls, value: bytes | memoryview | None) -> "Count":
        return cls() if value is None else cls(*_COUNT.unpack(value))

    def plus(self, header: ItemHeader, sign: int = 1) -> "Count":
        return Count(self.items + sign, self.size_bytes + sign * header.cost_bytes)


def tenant_of(salt: str) -> bytes:
    """The bank's name of a tenant, from its tag in the request: 8 bytes, not invertible."""
    return hashlib.blake2b(salt.encode(), digest_size=8).digest()


def checksum(kv: memoryview | bytes) -> int:
    """xxh3-64 of an item's KV bytes."""
    return xxhash.xxh3_64_intdigest(kv)
