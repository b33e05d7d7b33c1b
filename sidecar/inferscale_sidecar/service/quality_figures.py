"""From pairs of distributions to the figures and the verdict of a quality check. Pure; owns the
thresholds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_KL = 0.2
MIN_TOP1 = 0.85
MIN_KEPT = 0.8
"""Thresholds: mean KL(text ‖ injected) in nats, share of positions with the same best token, share
of the answers right with text that stay right. Policies that encode items alone miss all three on
every model measured (docs/quality.md); the shipped ones are far inside."""
MIN_RIGHT = 4
"""With fewer right answers from the text, `MIN_KEPT` says nothing and is not applied."""


@dataclass(frozen=True)
class QualityFigures:
    """What was measured. `passed` is None if nothing was injected, so that nothing could be."""

    passed: bool | None
    detail: str
    kl: float = math.nan
    top1: float = math.nan
    positions: int = 0
    text_right: int = 0
    injected_right: int = 0
    cases: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Position:
    """One forced token: whether it is the one that matters, and what each arm would have said."""

    is_needle: bool
    token: str
    text: Mapping[str, float]
    injected: Mapping[str, float]


def judge(positions: Sequence[Position]) -> QualityFigures:
    """Figures and verdict over all positions of all cases."""
    kl = sum(coarse_kl(p.text, p.injected) for p in positions) / len(positions)
    same = [_best(p.text) == _best(p.injected) for p in positions]
    top1 = sum(same) / len(same)
    needles = [p for p in positions if p.is_needle]
    right = [p for p in needles if _best(p.text) == p.token]
    kept = [p for p in right if _best(p.injected) == p.token]
    is_good = kl <= MAX_KL and top1 >= MIN_TOP1
    if len(right) >= MIN_RIGHT:
        is_good = is_good and len(kept) >= MIN_KEPT * len(right)
    detail = (
        f"KL to the text {kl:.3f} (at most {MAX_KL}), same best token {top1:.1%} (at least "
        f"{MIN_TOP1:.0%}), {len(kept)} of {len(right)} right answers kept (at least {MIN_KEPT:.0%})"
    )
    return QualityFigures(
        passed=is_good,
        detail=detail,
        kl=round(kl, 4),
        top1=round(top1, 4),
        positions=len(positions),
        text_right=len(right),
        injected_right=len(kept),
        cases=len(needles),
    )


def coarse_kl(text: Mapping[str, float], injected: Mapping[str, float]) -> float:
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


def _best(top: Mapping[str, float]) -> str:
    return max(top, key=lambda token: top[token])
