"""Input from the network: accepted only when signed and exactly of the agreed form."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale.protocol.engine import (
    Capture,
    Shown,
    build_params,
    inject_params,
    is_signed,
    show_params,
    sign,
)
from inferscale_vllm.operation import Build, Inject, Refused, Show, parse

SECRET = "s"
KEY = "ab" * 32
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


def signed(**body: Any) -> dict[str, Any]:
    full = {"v": 1, "request_id": "r", "salt": "t", **body}
    return {"inferscale": {**full, "auth": sign(SECRET, full)}}


def test_inject_and_build_round_trip() -> None:
    params = inject_params(SECRET, request_id="r", salt="t", items=[KEY])
    assert parse(params, secret=SECRET) == Inject("r", "t", (KEY,))
    captures = [Capture(KEY, 3, 5), Capture("cd" * 32, 5, 9)]
    params = build_params(SECRET, request_id="r", salt="t", captures=captures, prefix_end=3)
    assert parse(params, secret=SECRET) == Build("r", "t", tuple(captures), 3)


def test_what_a_prompt_shows_round_trips_with_every_operation() -> None:
    shows = (Shown((7, 8), (("a memory", KEY), ("another", None))), Shown((), (("a block", None),)))
    told: dict[str, Any] = {"request_id": "r", "salt": "t", "shows": shows}
    assert parse(show_params(SECRET, **told), secret=SECRET) == Show("r", "t", shows)
    params = inject_params(SECRET, items=[KEY], **told)
    assert parse(params, secret=SECRET) == Inject("r", "t", (KEY,), shows=shows)
    params = build_params(SECRET, captures=[], is_scratch=True, **told)
    assert parse(params, secret=SECRET) == Build("r", "t", (), None, shows, is_scratch=True)


def test_nothing_of_ours_is_nothing() -> None:
    assert parse(None, secret=SECRET) is None
    assert parse({"do_remote_prefill": True}, secret=SECRET) is None


@pytest.mark.parametrize("secret", ["other", None])
def test_wrong_or_missing_secret(secret: str | None) -> None:
    params = inject_params(SECRET, request_id="r", salt="t", items=[KEY])
    with pytest.raises(Refused) as caught:
        parse(params, secret=secret)
    assert caught.value.reason == "unauthenticated"


def test_any_change_breaks_the_signature() -> None:
    body = inject_params(SECRET, request_id="r", salt="t", items=[KEY])["inferscale"]
    assert is_signed(SECRET, body)
    for name, value in {"salt": "u", "request_id": "q", "items": [], "extra": 1}.items():
        assert not is_signed(SECRET, {**body, name: value})


@pytest.mark.parametrize(
    "body",
    [
        {"op": "inject", "items": ["zz" * 32]},
        {"op": "inject", "items": KEY},
        {"op": "inject", "items": [KEY] * 5000},
        {"op": "inject", "items": [KEY], "salt": ""},
        {"op": "inject", "items": [KEY], "v": 2},
        {"op": "build", "captures": [[KEY, 5, 5]]},
        {"op": "build", "captures": [[KEY, 0, 5], [KEY, 4, 9]]},
        {"op": "build", "captures": [[KEY, -1, 5]]},
        {"op": "build", "captures": [], "prefix_end": 0},
        {"op": "show", "shows": "x"},
        {"op": "show", "shows": [{"after": [], "texts": [["x"]]}]},
        {"op": "show", "shows": [{"after": [], "texts": [["", None]]}]},
        {"op": "show", "shows": [{"after": [], "texts": [["two\nlines", None]]}]},
        {"op": "show", "shows": [{"after": [], "texts": [["x", "not a key"]]}]},
        {"op": "show", "shows": [{"after": [-1], "texts": []}]},
        {"op": "show", "shows": [{"after": [2**31], "texts": []}]},
        {"op": "explode"},
        {},
    ],
)
def test_malformed(body: dict[str, Any]) -> None:
    with pytest.raises(Refused) as caught:
        parse(signed(**body), secret=SECRET)
    assert caught.value.reason == "malformed"


@given(
    st.dictionaries(
        st.sampled_from(["op", "items", "captures", "prefix_end", "v", "shows"]), json_values
    )
)
def test_arbitrary_signed_input_never_breaks(body: dict[str, Any]) -> None:
    try:
        result = parse(signed(**body), secret=SECRET)
    except Refused as refusal:
        assert refusal.reason in {"malformed", "unauthenticated"}
    else:
        assert isinstance(result, Inject | Build | Show)
