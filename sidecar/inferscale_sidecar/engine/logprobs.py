"""How far two runs of the same tokens are apart, by the log-probabilities that they list."""

Logprobs = list[dict[str, float]]
"""Top log-probabilities by token, one entry per generated token."""


def difference(left: Logprobs, right: Logprobs) -> float:
    """Largest difference of log-probabilities of two runs, up to the first different choice.

    Behind that they no longer answer the same question. A token that only one run lists counts with
    how far it is above what the other would have listed.
    """
    worst = 0.0
    for mine, theirs in zip(left, right, strict=True):
        worst = max(worst, _gap(mine, theirs), _gap(theirs, mine))
        if _chosen(mine) != _chosen(theirs):
            break
    return worst


def _gap(mine: dict[str, float], theirs: dict[str, float]) -> float:
    floor = min(theirs.values())
    return max(
        abs(p - theirs[token]) if token in theirs else max(0.0, p - floor)
        for token, p in mine.items()
    )


def _chosen(top: dict[str, float]) -> str:
    return max(top, key=top.__getitem__)
