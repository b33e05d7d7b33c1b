"""What is tried: arms by series.

Owns names only. The first arm of a series is what ships, with all items injected.
"""

from dataclasses import dataclass

BASE = "recent(8)/40"
"""The shipped policy with the shipped size of a window, as a layout (`layouts.windows`)."""
EVERY = 10**9
UNLIKE = -1
"""In place of `r`: as many as could be mistaken for the best one."""


@dataclass(frozen=True)
class Arm:
    """One way to serve.

    Attributes:
        recipe: how its items are made (`layouts.windows`, `Trial`); empty: as text.
        r: items at the end that are left to prefill, or `UNLIKE`.
        order: of the served list (`orders.ordered`); a name of `frames.FRAMES`: the usual one, in
            that frame (and built in it: a recipe that ends in `@` and the name).
        per_case: built for one question only; `exact:a-b`: items a to b are what prefill makes of
            the served list, the others the shipped ones; `sliding:n`: each item behind the n that
            it is served behind; `front:a,b,…`: the first item behind the a facts before it in time,
            the second behind b, and so on, the others the shipped ones.
        served_head: built behind the tokens that really stand before the list.
        questions: only so many of a series.
        grain: only on items of this kind (`grains.GRAINS`).
    """

    recipe: str
    r: int = 0
    order: str = "best_last"
    per_case: str = ""
    served_head: bool = False
    questions: int = EVERY
    grain: str = ""

    @property
    def name(self) -> str:
        grain = f" {self.grain}" * bool(self.grain)
        return f"{self.recipe or 'text'} r={self.r} {self.order}{grain}"


_FOUR = f"mean:{BASE},back,stir:1,stir:2"
_WIDE = f"mean:{BASE},back,meaning,shuffled:1"
SERIES = {
    "policies": (
        Arm(BASE),
        Arm(BASE, 1),
        Arm(BASE, 2),
        Arm(BASE, 10),
        Arm(f"{BASE}@head"),
        Arm("recent(8)/12"),
        Arm("shuffled:1"),
        Arm("meaning"),
        Arm(f"mean:{BASE},back"),
        Arm(f"mean:{BASE},stir:1"),
        Arm(_FOUR),
        Arm(_FOUR, 2),
        Arm(f"mean:{BASE},shuffled:1"),
        Arm(_WIDE),
        Arm(_WIDE, 2),
        Arm(f"k0.96:{BASE}"),
        Arm(f"k1.04:{BASE}"),
        Arm(BASE, order="chronological"),
        Arm("served list, served head", per_case="exact:0-999", served_head=True, questions=8),
        Arm("served list", per_case="exact:0-999"),
        Arm("4 served neighbours", per_case="sliding:4", questions=8),
        Arm("", order="far_half_shuffled"),
        Arm("", order="without_worst"),
        Arm("", order="all_shuffled"),
    ),
    "places": (
        Arm(BASE),
        Arm(BASE, 2),
        Arm("front 0", per_case="front:0"),
        Arm("front 0", 2, per_case="front:0"),
        Arm("front 0,1,2", per_case="front:0,1,2"),
        Arm("front 1,1,1", per_case="front:1,1,1"),
        Arm("front 0 to 7", per_case="front:0,1,2,3,4,5,6,7"),
        Arm("front 0 to 7", 2, per_case="front:0,1,2,3,4,5,6,7"),
        Arm("exact first half", per_case="exact:0-10", served_head=True),
        Arm("exact last half", per_case="exact:10-999", served_head=True),
        Arm(f"{BASE}@three", order="three"),
        Arm(f"{BASE}@three", 2, order="three"),
        Arm(BASE, order="far_half_built"),
        Arm("", order="three"),
        Arm("", order="far_half_built"),
    ),
    "opening": (
        Arm(BASE),
        Arm(BASE, 2),
        Arm(f"{BASE}@bare", order="bare"),
        Arm(f"{BASE}@bare", 2, order="bare"),
        Arm("exact first 1", per_case="exact:0-1", served_head=True),
        Arm("exact first 2", per_case="exact:0-2", served_head=True),
        Arm("recent(8)/12"),
        Arm("recent(8)/12", 2),
        Arm("", order="bare"),
    ),
    "duplicates": (
        Arm(BASE),
        Arm(BASE, 1),
        Arm(BASE, 2),
        Arm("generic(16)"),
        Arm("served list, served head", per_case="exact:0-999", served_head=True),
        Arm("4 served neighbours", per_case="sliding:4", questions=5),
        Arm("mean:shuffled:1,shuffled:2,shuffled:3,shuffled:4"),
        Arm("meaning"),
        Arm(f"{BASE}@bare", order="bare"),
        Arm(BASE, order="built"),
        Arm(BASE, UNLIKE, order="alike_last"),
        Arm("", order="built"),
        Arm("", order="alike_last"),
        Arm("", order="all_shuffled"),
    ),
    "grains": (
        Arm(BASE, grain="facts"),
        Arm(BASE, 2, grain="facts"),
        Arm("session(16)", grain="facts"),
        Arm("recent(8)/20", grain="pairs"),
        Arm("recent(8)/20", 1, grain="pairs"),
        Arm("recent(4)/10", grain="fours"),
        Arm("recent(4)/10", 1, grain="fours"),
        Arm("recent(8)/24", grain="turns"),
        Arm("recent(8)/24", 2, grain="turns"),
        Arm("recent(8)/24", order="chronological", grain="turns"),
    ),
}
