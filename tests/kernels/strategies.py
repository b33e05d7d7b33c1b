"""What hypothesis may throw at the ops."""

from __future__ import annotations

from hypothesis import strategies as st


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    """Any valid table over 24 staged tokens and 30 target rows."""
    rows, target = [], draw(st.integers(0, 4))
    while target < 26 and len(rows) < 6:
        count = draw(st.integers(1, min(8, 30 - target)))
        source = draw(st.integers(0, 24 - count))
        rows.append((source, count, draw(st.integers(-(2**17), 2**17)), target))
        target += count + draw(st.integers(0, 3))
    return draw(st.permutations(rows))
