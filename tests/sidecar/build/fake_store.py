"""The KV half of the store in plain dicts, with the promises that its port makes."""

from collections.abc import AsyncIterator, Sequence

from inferscale_sidecar.core import BuildItem, KvItem, Scope, Tail, Tenant
from inferscale_sidecar.store.neighbour_port import EarlyItem

MAX_FAILURES = 3
TENANTS = {name: Tenant(name, name, name.encode() * 8) for name in ("acme", "globex")}


class FakeStore:
    def __init__(self) -> None:
        self.live: dict[tuple[str, int], BuildItem] = {}
        self.kv: dict[tuple[str, int, str], KvItem] = {}
        self.failures: dict[tuple[str, int], list[str]] = {}
        self.purges: list[str] = []
        self.marked: list[BuildItem] = []
        self.given_up: set[str] = set()
        self.prefixes: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []
        self.doomed: dict[str, float] = {}
        self.tails: list[tuple[str, Tail, tuple[str, ...]]] = []
        self.forgotten: set[Scope] = set()

    def add(self, *texts: str, owner: str = "user:alice", tenant: str = "acme") -> list[BuildItem]:
        made = []
        for text in texts:
            item = BuildItem(f"m{len(self.live):04}", 1, tenant, owner, text)
            self.live[item.memory_id, 1] = item
            made.append(item)
        return made

    async def put_block_prefixes(
        self, fingerprint: str, block_ids: Sequence[str], keys: Sequence[str]
    ) -> None:
        self.prefixes.append((fingerprint, tuple(block_ids), tuple(keys)))

    async def purge_later(
        self, fingerprint: str, keys: Sequence[str], tenant_id: str, tail: Tail
    ) -> bool:
        self.tails.append((tenant_id, tail, tuple(keys)))
        if is_forgotten := any(scope.covers(tail.scope) for scope in self.forgotten):
            self.purges += keys
        self.doomed |= dict.fromkeys(keys, 0.0 if is_forgotten else tail.keep_s)
        return not is_forgotten

    def drop(self, item: BuildItem) -> None:
        """Deletes a memory; what was encoded behind it goes with it."""
        del self.live[item.memory_id, item.version]
        for name, kv in list(self.kv.items()):
            if kv.memory_id == item.memory_id or item.memory_id in kv.context_ids:
                del self.kv[name]
                self.purges.append(kv.key)

    def keys(self) -> set[str]:
        return {kv.key for kv in self.kv.values()}

    # -- the port

    async def get_tenant(self, tenant_id: str) -> Tenant | None:
        return TENANTS.get(tenant_id)

    async def bind_bank(self, fingerprint: str) -> bool:
        return fingerprint in self.given_up

    async def bank_emptied(self, fingerprint: str) -> None:
        self.given_up.discard(fingerprint)

    async def pending_builds(self, fingerprint: str, *, limit: int) -> list[BuildItem]:
        waiting = [
            item
            for name, item in self.live.items()
            if (*name, fingerprint) not in self.kv
            and len(self.failures.get(name, ())) <= MAX_FAILURES
        ]
        groups: dict[tuple[str, str], list[BuildItem]] = {}
        for item in waiting:
            groups.setdefault((item.tenant_id, item.owner), []).append(item)
        return [item for group in groups.values() for item in group][:limit]

    async def mark_building(self, fingerprint: str, items: Sequence[BuildItem]) -> None:
        self.marked += items

    async def mark_failed(
        self, fingerprint: str, items: Sequence[BuildItem], error: str, *, counts: bool = True
    ) -> None:
        for item in items:
            self.failures.setdefault((item.memory_id, item.version), []).append(error)

    async def put_kv_items(self, items: Sequence[KvItem]) -> list[KvItem]:
        vanished = []
        for kv in items:
            alive = {name for name, _ in self.live}
            if (kv.memory_id, kv.version) in self.live and alive.issuperset(kv.context_ids):
                self.kv[kv.memory_id, kv.version, kv.fingerprint] = kv
            else:
                vanished.append(kv)
        return vanished

    async def previous_items(
        self, tenant_id: str, owner: str, *, before: BuildItem, limit: int
    ) -> list[BuildItem]:
        mine = [i for i in self.live.values() if (i.tenant_id, i.owner) == (tenant_id, owner)]
        return [i for i in mine if i.memory_id < before.memory_id][-limit:] if limit else []

    async def similar_items(self, items: Sequence[BuildItem], *, limit: int) -> list[BuildItem]:
        """By words in common, as good as any meaning here."""
        words = {word for item in items for word in item.text.split()}
        mine = [
            i
            for i in self.live.values()
            if (i.tenant_id, i.owner) == (items[0].tenant_id, items[0].owner) and i not in items
        ]
        mine.sort(key=lambda i: len(words & set(i.text.split())))
        return mine[-limit:] if limit else []

    async def early_items(
        self, tenant_id: str, owner: str, fingerprint: str, *, limit: int
    ) -> list[EarlyItem]:
        mine = [i for i in self.live.values() if (i.tenant_id, i.owner) == (tenant_id, owner)]
        kv = [self.kv.get((i.memory_id, i.version, fingerprint)) for i in mine]
        found = [EarlyItem(i, k and len(k.context_ids)) for i, k in zip(mine, kv, strict=True)]
        return found[:limit]

    async def drop_dependent_kv(self, fingerprint: str) -> int:
        dependent = [n for n, kv in self.kv.items() if kv.context_ids]
        self.purges += [self.kv.pop(n).key for n in dependent]
        return len(dependent)

    async def kv_items(
        self, tenant_id: str, fingerprint: str, versions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], KvItem]:
        found = {v: self.kv.get((*v, fingerprint)) for v in versions}
        return {v: kv for v, kv in found.items() if kv and kv.tenant_id == tenant_id}

    async def forget_kv(self, fingerprint: str, keys: Sequence[str]) -> None:
        self.kv = {n: kv for n, kv in self.kv.items() if kv.key not in keys}

    async def all_keys(self, fingerprint: str) -> AsyncIterator[list[str]]:
        yield [kv.key for kv in self.kv.values() if kv.fingerprint == fingerprint]

    async def take_purges(self, fingerprint: str, *, limit: int) -> list[str]:
        return self.purges[:limit]

    async def finish_purges(self, keys: Sequence[str], *, fingerprint: str | None = None) -> None:
        self.purges = [k for k in self.purges if k not in keys]

    async def build_counts(self, tenant_id: str, fingerprint: str | None) -> None:
        raise NotImplementedError("the queue does not count")
