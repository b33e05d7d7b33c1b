"""One build request: new items behind their context, as token ids with the slices to capture.

Owns the arithmetic of a window. Pure: no I/O, no clock. Invariants: the ids are a prefix of a real
chat prompt; captures are ascending and disjoint; at least one token follows the last capture;
every new item is either captured, refused with a reason, or left over for the next window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inferscale.protocol.engine import Capture, item_key
from inferscale_sidecar.build.policy import Context, EncodePolicy
from inferscale_sidecar.compose.head import ListTokenizer, ListTokens
from inferscale_sidecar.compose.keys import POLICY, item_salt
from inferscale_sidecar.core import BuildItem, KvItem, Tenant


@dataclass(frozen=True)
class WindowLimits:
    """How big a build request may be.

    Attributes:
        items: most new items.
        tokens: most prompt tokens, context included.
        context: how many previous items a new item is encoded behind, unless `policy` says more.
        policy: name of the encode policy (see `policy.EncodePolicy`); empty: `recent(context)`.
    """

    items: int = 40
    tokens: int = 4096
    context: int = 8
    policy: str = ""

    @property
    def encode_policy(self) -> EncodePolicy:
        """The policy in use."""
        return EncodePolicy.parse(self.policy or f"recent({self.context})")

    @property
    def new_items(self) -> int:
        """Most new items of one build under the policy."""
        return self.encode_policy.window(self.items)


@dataclass(frozen=True)
class Planned:
    """A new item and the slice that becomes its KV. `behind`: memory ids it is encoded behind."""

    item: BuildItem
    capture: Capture
    behind: tuple[str, ...]

    def stored(self, fingerprint: str) -> KvItem:
        """The record of this item once the bank holds it."""
        return KvItem(
            memory_id=self.item.memory_id,
            version=self.item.version,
            tenant_id=self.item.tenant_id,
            fingerprint=fingerprint,
            key=self.capture.key,
            num_tokens=self.capture.end - self.capture.start,
            context_ids=self.behind,
        )


@dataclass(frozen=True)
class BuildPrompt:
    """What to send. `ids` is empty if nothing of the window can be built."""

    ids: tuple[int, ...]
    planned: tuple[Planned, ...]
    refused: tuple[tuple[BuildItem, str], ...]
    left_over: tuple[BuildItem, ...]

    @property
    def captures(self) -> tuple[Capture, ...]:
        return tuple(p.capture for p in self.planned)


def plan_window(
    new: Sequence[BuildItem],
    previous: Sequence[BuildItem],
    *,
    tenant: Tenant,
    model: str,
    lists: ListTokenizer,
    limits: WindowLimits,
    similar: Sequence[BuildItem] = (),
) -> BuildPrompt:
    """Lays out one window.

    Args:
        new: items to encode, oldest first, of one owner of `tenant`.
        previous: the owner's items just before them, oldest first.
        tenant: whose salt goes into the keys.
        model: the served model's name.
        lists: tokenizer of lists.
        limits: size of the window, and the policy that chooses the context.
        similar: items of the owner closest to the new ones, best last.
    """
    policy = limits.encode_policy
    window, rest = tuple(new[: limits.new_items]), tuple(new[limits.new_items :])
    if not window:
        return BuildPrompt((), (), (), rest)
    context = _fitting(policy.context(previous, similar), lists, limits)
    behind = context.behind
    tokens = lists.split([*context.generic, *(i.text for i in (*behind, *window))])
    first = len(context.generic) + len(behind)
    fits = sum(1 for t in tokens.items[first:] if t.end < limits.tokens)
    if not fits:
        reason = f"needs {tokens.items[first].end} tokens, a build holds {limits.tokens}"
        return BuildPrompt((), (), ((window[0], reason),), (*window[1:], *rest))
    refused: list[tuple[BuildItem, str]] = []
    planned: list[Planned] = []
    for n, item in enumerate(window[:fits]):
        if reason := tokens.items[first + n].refused or "":
            refused.append((item, reason))
            continue
        neighbours = tuple(i.memory_id for i in (*behind, *window[:n]))
        planned.append(
            Planned(item, _capture(tokens, first + n, item, tenant, model, policy), neighbours)
        )
    end = planned[-1].capture.end + 1 if planned else 0
    return BuildPrompt(tokens.ids[:end], tuple(planned), tuple(refused), (*window[fits:], *rest))


def _capture(
    tokens: ListTokens,
    at: int,
    item: BuildItem,
    tenant: Tenant,
    model: str,
    policy: EncodePolicy,
) -> Capture:
    where = tokens.items[at]
    key = item_key(
        item_salt(tenant, item),
        model,
        f"{POLICY}/{policy.name}",
        tokens.ids[: where.start],
        tokens.item_ids(at),
    )
    return Capture(key, where.start, where.end)


def _fitting(context: Context, lists: ListTokenizer, limits: WindowLimits) -> Context:
    """The end of the context that leaves at least half of the window to new items."""
    lines = (*context.generic, *(i.text for i in context.behind))
    if not lines:
        return context
    tokens = lists.split(lines)
    total, made_up = tokens.items[-1].end, len(context.generic)
    for n, item in enumerate(tokens.items):
        if total - item.start <= limits.tokens // 2:
            return Context(context.generic[n:], context.behind[max(0, n - made_up) :])
    return Context((), ())
