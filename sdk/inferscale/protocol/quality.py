"""The answer of `POST /v1/quality-checks`."""

import math
from typing import Annotated

from pydantic import BaseModel, BeforeValidator

Figure = Annotated[
    float | None,
    BeforeValidator(lambda v: None if isinstance(v, float) and math.isnan(v) else v),
]


class QualityCheckResult(BaseModel):
    """Injected memory beside its text, on made-up facts and the served model.

    Attributes:
        passed: None if memory was not injected, so that nothing could be measured.
        detail: one sentence with figures and thresholds.
        kl: mean KL(text ‖ injected) in nats over `positions` (a lower bound: top tokens only).
        top1: share of positions with the same best token.
        positions: answer tokens that were compared.
        text_right, injected_right: answers that the text gets right, and how many of them
            injection gets right as well, of `cases`.
        fast_kl, fast_top1, fast_right: the same with everything injected (`fidelity="fast"`);
            `passed` is about `balanced`, the default.
        seconds: how long it took.
    """

    passed: bool | None
    detail: str
    kl: Figure = None
    top1: Figure = None
    positions: int = 0
    text_right: int = 0
    injected_right: int = 0
    fast_kl: Figure = None
    fast_top1: Figure = None
    fast_right: int = 0
    cases: int = 0
    seconds: float = 0.0
