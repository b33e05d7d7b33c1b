"""Settings: arguments, environment, defaults."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferscale import InvalidArgumentError, Memory
from inferscale._config import create_config, resolve_api_key, resolve_base_url

VALID = {"base_url": None, "api_key": None, "timeout_s": 1, "max_retries": 0}


def test_arguments_win_over_the_environment_and_that_over_defaults():
    environ = {"INFERSCALE_BASE_URL": "http://env:1", "INFERSCALE_API_KEY": "env"}
    assert resolve_base_url(None, {}) == "http://127.0.0.1:8420"
    assert resolve_base_url(None, environ) == "http://env:1"
    assert resolve_base_url("http://arg:1", environ) == "http://arg:1"
    assert resolve_api_key(None, {}) is None
    assert resolve_api_key("", environ) == "env"
    assert resolve_api_key("arg", environ) == "arg"


@given(st.sampled_from(["", "/"]), st.sampled_from(["", "/v1", "/v1/"]))
def test_an_address_may_end_as_openai_wants_it(slash, version):
    assert resolve_base_url(f"https://h/mem{version or slash}", {}) == "https://h/mem"


@pytest.mark.parametrize("address", ["localhost:8420", "ftp://h", "http://", "h", "http://h:port"])
def test_a_wrong_address_is_named(address):
    with pytest.raises(InvalidArgumentError, match="base_url"):
        resolve_base_url(address, {})


@pytest.mark.parametrize(
    "wrong",
    [{"timeout_s": 0}, {"timeout_s": float("nan")}, {"max_retries": -1}, {"api_key": "a\nb"}],
)
def test_a_wrong_setting_is_refused(wrong):
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        create_config(**{**VALID, **wrong})


def test_the_key_is_in_no_repr():
    config = create_config(**{**VALID, "api_key": "s3cret"})
    assert "s3cret" not in repr(config)
    with Memory(api_key="s3cret") as memory:
        assert "s3cret" not in repr(memory) + str(vars(memory))


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        ("http://127.0.0.1:8420", True),
        ("http://localhost", True),
        ("http://[::1]:8", True),
        ("http://sidecar", False),
    ],
)
def test_this_machine_is_known(address, is_local):
    assert create_config(**{**VALID, "base_url": address}).is_local is is_local
