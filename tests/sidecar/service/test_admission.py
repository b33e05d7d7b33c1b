"""How often and how many at once: exact in every minute, apart by tenant and kind."""

import math
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from inferscale_sidecar.errors import RateLimited
from inferscale_sidecar.limits import NO_LIMITS, Limits
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.admission import Admission


class Time:
    """Seconds that pass when they are told to."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def _is_admitted(admission: Admission, limits: Limits) -> bool:
    try:
        admission.admit("t", "write", limits)
    except RateLimited:
        return False
    return True


@given(
    pauses=st.lists(st.floats(0, 40) | st.just(0.0), max_size=80),
    quota=st.integers(1, 7),
    start=st.floats(0, 1e6),
)
def test_no_minute_ever_holds_more_than_the_limit(
    pauses: list[float], quota: int, start: float
) -> None:
    time = Time(start)
    admission, limits = Admission(Metrics(), monotonic=time), Limits(write_per_minute=quota)
    admitted: list[float] = []
    for pause in pauses:
        time.now += pause
        if _is_admitted(admission, limits):
            admitted.append(time.now)
    for first, later in zip(admitted, admitted[quota:], strict=False):
        assert later - first >= 60 - 1e-6
    assert all(a <= b for a, b in pairwise(admitted))


@given(
    pauses=st.lists(st.floats(0, 20), min_size=1, max_size=60),
    quota=st.integers(1, 5),
    start=st.floats(0, 1e6),
)
def test_who_waits_as_told_is_admitted(pauses: list[float], quota: int, start: float) -> None:
    time = Time(start)
    admission, limits = Admission(Metrics(), monotonic=time), Limits(write_per_minute=quota)
    for pause in pauses:
        time.now += pause
        try:
            admission.admit("t", "write", limits)
        except RateLimited as error:
            assert 0 < error.retry_after_s <= 61
            time.now += math.ceil(error.retry_after_s)
            admission.admit("t", "write", limits)


def test_a_refusal_names_the_limit_the_value_and_the_remedy() -> None:
    metrics = Metrics()
    admission = Admission(metrics, monotonic=Time())
    limits = Limits(read_per_minute=1)
    standing = admission.admit("t", "read", limits)
    assert standing is not None
    assert (standing.quota, standing.remaining) == (1, 0)
    with pytest.raises(RateLimited, match=r"1 read requests .* read_per_minute; send .* again in"):
        admission.admit("t", "read", limits)
    shown = metrics.registry.get_sample_value(
        "inferscale_quota_rejections_total", {"reason": "read_per_minute"}
    )
    assert shown == 1


def test_tenants_and_kinds_do_not_share() -> None:
    admission = Admission(Metrics(), monotonic=Time())
    limits = Limits(1, 1, 1)
    for tenant in ("a", "b"):
        for kind in ("read", "write", "chat"):
            admission.admit(tenant, kind, limits)  # type: ignore[arg-type]
    with pytest.raises(RateLimited):
        admission.admit("a", "chat", limits)
    assert admission.admit("a", "chat", NO_LIMITS) is None


def test_a_stream_counts_until_it_has_ended_however_it_ends() -> None:
    admission, limits = Admission(Metrics(), monotonic=Time()), Limits(streams=1)
    with admission.stream("a", limits):
        with (
            pytest.raises(RateLimited, match="1 streams are running"),
            admission.stream("a", limits),
        ):
            pass
        with admission.stream("b", limits):
            pass
    with pytest.raises(KeyError), admission.stream("a", limits):
        raise KeyError
    with admission.stream("a", limits):
        pass
