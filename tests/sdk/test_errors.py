"""The tree of errors: as drawn, public, documented, and helpful."""

import pickle
from pathlib import Path

import httpx
import pytest

import inferscale
from inferscale import errors
from inferscale._status import ERROR_BY_STATUS, error_from_response

ALL = [getattr(errors, name) for name in errors.__all__]


def _drawn():
    """class name → name of its parent, from the drawing in the docstring."""
    parents, path = {}, []
    for line in errors.__doc__.splitlines():
        name = line.lstrip("│├└─ ").split(" ")[0]
        if not name.endswith("Error"):
            continue
        depth = (len(line) - len(line.lstrip("│├└─ "))) // 3
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else "Exception"
    return parents


def test_the_drawing_is_the_tree():
    assert _drawn() == {kind.__name__: kind.__bases__[0].__name__ for kind in ALL}


def test_every_error_is_public_and_in_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text()
    for kind in ALL:
        assert getattr(inferscale, kind.__name__) is kind
        assert f"`{kind.__name__}`" in text


@pytest.mark.parametrize("status", range(400, 600))
def test_every_status_has_a_class(status):
    response = httpx.Response(
        status,
        json={"error": {"message": "why", "code": "c", "param": "p", "type": "t"}},
        headers={"x-request-id": "r", "retry-after": "2"},
        request=httpx.Request("GET", "http://s.test/x"),
    )
    error = error_from_response(response)
    fallback = errors.ServerError if status >= 500 else errors.APIStatusError
    assert type(error) is ERROR_BY_STATUS.get(status, fallback)
    assert (error.code, error.param, error.request_id, error.retry_after_s) == ("c", "p", "r", 2)
    assert str(error).startswith(f"why (status {status}, code c, param p, request r).")


@pytest.mark.parametrize("value", ["", "soon", "-1", "nan", "inf", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_retry_after_that_is_no_number_of_seconds_is_ignored(value):
    response = httpx.Response(
        503, headers={"retry-after": value}, request=httpx.Request("GET", "http://s.test/x")
    )
    assert error_from_response(response).retry_after_s is None


@pytest.mark.parametrize("kind", ALL)
def test_errors_survive_pickling(kind):
    error = kind("why", status_code=418, code="c", request_id="r")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error) and again.code == "c"


def test_builtin_kinds():
    assert issubclass(errors.InvalidArgumentError, ValueError)
    assert issubclass(errors.APITimeoutError, TimeoutError)
    assert issubclass(errors.NotReadyError, TimeoutError)
