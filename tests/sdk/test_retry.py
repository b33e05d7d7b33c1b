"""The retry policy, as a function."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from inferscale import errors
from inferscale._retry import RetryPolicy


def _all_errors(root=errors.APIError):
    return [root] + [found for child in root.__subclasses__() for found in _all_errors(child)]


@st.composite
def failures(draw):
    error = draw(st.sampled_from(_all_errors()))("x", retry_after_s=draw(st.none() | _SECONDS))
    error.maybe_received = draw(st.booleans())
    return error


_SECONDS = st.floats(0, 1e6)
JITTER = st.floats(0, 1, exclude_max=True)


@given(failures(), st.integers(0, 2000), st.booleans(), JITTER)
def test_never_more_than_max_retries_and_never_too_long(error, attempt, repeatable, jitter):
    policy = RetryPolicy(max_retries=1500)
    delay = policy.delay_s(attempt, error, repeatable=repeatable, jitter=jitter)
    if attempt >= 1500:
        assert delay is None
    assert delay is None or 0 <= delay <= policy.max_retry_after_s


@given(failures(), JITTER)
def test_what_may_have_been_received_is_repeated_only_if_that_is_harmless(error, jitter):
    delay = RetryPolicy().delay_s(0, error, repeatable=False, jitter=jitter)
    refused = isinstance(error, errors.RateLimitError | errors.UnavailableError)
    if delay is not None and not refused:
        assert not error.maybe_received


@given(JITTER)
def test_back_off_doubles_up_to_its_limit(jitter):
    policy, error = RetryPolicy(max_retries=9), errors.UnavailableError("x")
    delays = [policy.delay_s(n, error, repeatable=True, jitter=jitter) for n in range(9)]
    ratios = [after / before for before, after in pairwise(delays)]
    assert all(abs(ratio - 2) < 1e-9 for ratio in ratios[:5]) and max(delays) <= 8
