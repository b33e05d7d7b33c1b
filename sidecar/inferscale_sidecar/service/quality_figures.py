"""From pairs of distributions to the figures and the verdict of a quality check. Pure; owns the
thresholds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_KL = 0.2
MIN_TOP1 = 0.85
MIN_KEPT = 0.6
"""Thresholds of `fidelity="balanced"`: mean KL(text ‖ injected) in nats, share of positions with
the same best token, share of the answers right with text that stay right."""
MIN_RIGHT = 4
"""With fewer right answers from the text, `MIN_KEPT` says nothing and is not applied."""


@dataclass(frozen=True)
class QualityFigures:
    """What was measured. `passed` is None if nothing was injected, so that nothing could be.

    Attributes:
        kl, top1, injected_right: under `fidelity="balanced"`, which the verdict is about.
        fast_kl, fast_top1, fast_right: the same with everything injected.
        text_right: of `cases` answers, those that the text gets right; the others count among them.
    """

    passed: bool | None
    detail: str
    kl: float = math.nan
    top1: float = math.nan
    positions: int = 0
    text_right: int = 0
    injected_right: int = 0
    fast_kl: float = math.nan
    fast_top1: float = math.nan
    fast_right: int = 0
    cases: int = 0
    seconds: float = 0.0


Top = Mapping[str, float]
"""Top log-probabilities of the next token, by token."""


@dataclass(frozen=True)
class Position:
    """One forced token: whether it is the one that matters, and what each arm would have said."""

    is_needle: bool
    token: str
    text: Top
    balanced: Top
    fast: Top


@dataclass(frozen=True)
class _Arm:
    kl: float
    top1: float
    kept: int


def judge(positions: Sequence[Position]) -> QualityFigures:
    """Figures and verdict over all positions of all cases."""
    right = sum(p.is_needle and _best(p.text) == p.token for p in positions)
    balanced = _arm(positions, [p.balanced for p in positions])
    fast = _arm(positions, [p.fast for p in positions])
    is_good = balanced.kl <= MAX_KL and balanced.top1 >= MIN_TOP1
    if right >= MIN_RIGHT:
        is_good = is_good and balanced.kept >= MIN_KEPT * right
    detail = (
        f"KL to the text {balanced.kl:.3f} (at most {MAX_KL}), same best token {balanced.top1:.1%} "
        f"(at least {MIN_TOP1:.0%}), {balanced.kept} of {right} right answers kept (at least "
        f"{MIN_KEPT:.0%}); all injected: {fast.kl:.3f}, {fast.top1:.1%}, {fast.kept} of {right}"
    )
    return QualityFigures(
        passed=is_good,
        detail=detail,
        kl=round(balanced.kl, 4),
        top1=round(balanced.top1, 4),
        positions=len(positions),
        text_right=right,
        injected_right=balanced.kept,
        fast_kl=round(fast.kl, 4),
        fast_top1=round(fast.top1, 4),
        fast_right=fast.kept,
        cases=sum(p.is_needle for p in positions),
    )


def _arm(positions: Sequence[Position], tops: Sequence[Top]) -> _Arm:
    pairs = list(zip(positions, tops, strict=True))
    return _Arm(
        kl=sum(coarse_kl(p.text, top) for p, top in pairs) / len(pairs),
        top1=sum(_best(p.text) == _best(top) for p, top in pairs) / len(pairs),
        kept=sum(p.is_needle and _best(p.text) == p.token == _best(top) for p, top in pairs),
    )


def coarse_kl(text: Top, injected: Top) -> float:
    """KL(text ‖ injected) in nats over the text's top tokens and one bucket for the rest.

    Merging tokens can only lower a KL divergence, and a token that the other run does not list
    counts with the least it lists, so this is a lower bound.
    """
    floor = min(injected.values())
    total, left_text, left_injected = 0.0, 1.0, 1.0
    for token, log_p in text.items():
        log_q = injected.get(token, floor)
        total += math.exp(log_p) * (log_p - log_q)
        left_text -= math.exp(log_p)
        left_injected -= math.exp(log_q)
    left_text, left_injected = max(left_text, 1e-9), max(left_injected, 1e-9)
    return max(0.0, total + left_text * math.log(left_text / left_injected))


def _best(top: Top) -> str:
    return max(top, key=lambda token: top[token])
