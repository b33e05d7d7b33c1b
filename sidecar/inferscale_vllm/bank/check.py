"""Says what is wrong with a bank. Reads all of it, changes nothing."""

import xxhash

from inferscale_vllm.bank.file import BankFile
from inferscale_vllm.bank.items import Count, ItemHeader


def check_integrity(file: BankFile) -> list[str]:
    """Every broken invariant, one sentence each; empty if all is well."""
    problems: list[str] = []
    counts: dict[bytes, Count] = {}
    tables = file.tables
    with file.env.begin(buffers=True) as txn:
        for raw, value in txn.cursor(db=tables["headers"]):
            key, header = bytes(raw).hex(), ItemHeader.unpack(value)
            kv = txn.get(raw, db=tables["kv"])
            if header is None:
                problems.append(f"item {key} has a record that cannot be read")
                continue
            counts[header.tenant] = counts.get(header.tenant, Count()).plus(header)
            if kv is None:
                problems.append(f"item {key} has a header but no KV")
            elif len(kv) != header.size_bytes:
                problems.append(f"item {key} has {len(kv)} bytes of KV, not {header.size_bytes}")
            elif xxhash.xxh3_64_intdigest(kv) != header.checksum:
                problems.append(f"item {key} fails its checksum")
            if bool(header.retired_ns) != (txn.get(raw, db=tables["retired"]) is not None):
                problems.append(f"item {key} is retired in one table only")
        items, blobs = (txn.stat(tables[name])["entries"] for name in ("headers", "kv"))
        if items != blobs:
            problems.append(f"{items} headers but {blobs} KV blobs")
        written = {bytes(t): Count.unpack(v) for t, v in txn.cursor(db=tables["tenants"])}
    for tenant in counts.keys() | written.keys():
        found, noted = counts.get(tenant, Count()), written.get(tenant, Count())
        if found != noted:
            problems.append(f"tenant {tenant.hex()} has {found}, its count says {noted}")
    return problems
