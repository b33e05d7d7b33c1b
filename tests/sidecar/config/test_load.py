"""The loader: precedence, and errors that name key, value and source."""

from pathlib import Path

import pytest

from inferscale_sidecar.config import env_name, load, sections
from inferscale_sidecar.errors import ConfigError


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    return {"INFERSCALE_HOME": str(tmp_path)}


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)


def test_defaults_are_complete(home: dict[str, str], tmp_path: Path) -> None:
    config = load(env=home)
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8420)
    assert config.store_url == f"sqlite+aiosqlite:///{tmp_path}/inferscale.db"
    assert config.bank_dir == tmp_path / "bank"
    assert config.models_dir == tmp_path / "models"


def test_flag_beats_env_beats_file_beats_default(home: dict[str, str], tmp_path: Path) -> None:
    write(tmp_path, "[server]\nport = 1001\nhost = '::1'\nlog_level = 'debug'\n")
    env = home | {"INFERSCALE_SERVER_PORT": "1002", "INFERSCALE_SERVER_HOST": "localhost"}
    server = load({"server.port": 1003, "server.host": None}, env=env).server
    assert (server.port, server.host, server.log_level) == (1003, "localhost", "debug")


def test_without_a_home_data_and_cache_are_apart() -> None:
    config = load(env={"XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/c"})
    assert config.store_url == "sqlite+aiosqlite:////d/inferscale/inferscale.db"
    assert config.bank_dir == Path("/c/inferscale/bank")


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ({"INFERSCALE_SERVER_PORT": "abc"}, ["server.port", "'abc'", "INFERSCALE_SERVER_PORT"]),
        ({"INFERSCALE_SERVER_PORT": "70000"}, ["server.port", "'70000'", "65535"]),
        ({"INFERSCALE_SERVER_PROT": "1"}, ["server.prot", "did you mean server.port"]),
        ({"INFERSCALE_ENGINE_BANK_SIZE_BYTES": "8 apples"}, ["bank_size_bytes", "512MiB"]),
        ({"INFERSCALE_ENGINE_START_TIMEOUT_S": "0"}, ["engine.start_timeout_s", "'0'"]),
    ],
)
def test_wrong_values_say_what_and_where(
    home: dict[str, str], env: dict[str, str], parts: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(env=home | env)
    assert all(part in caught.value.message for part in parts), caught.value.message


def test_all_wrong_values_are_named_at_once(home: dict[str, str]) -> None:
    env = home | {"INFERSCALE_SERVER_PORT": "x", "INFERSCALE_INJECT_WINDOW_ITEMS": "y"}
    with pytest.raises(ConfigError, match=r"server\.port.*inject\.window_items"):
        load(env=env)


def test_a_wrong_secret_is_not_shown(home: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(env=home | {"INFERSCALE_ENGINE_SECRET": "hunter2"})
    assert "hunter2" not in caught.value.message
    assert "engine.secret" in caught.value.message


def test_a_secret_is_not_in_the_repr(home: dict[str, str]) -> None:
    config = load(env=home | {"INFERSCALE_ENGINE_SECRET": "hunter2-hunter2-hunter2"})
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[server]\nport = 'x'", "server.port"),
        ("[sever]\nport = 1", "did you mean server"),
        ("port = 1", "unknown setting port"),
        ("[server", "not valid TOML"),
    ],
)
def test_file_errors_name_the_file(
    home: dict[str, str], tmp_path: Path, text: str, part: str
) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(env=home)
    assert part in caught.value.message
    assert "config.toml" in caught.value.message


def test_a_named_file_must_exist(home: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(env=home | {"INFERSCALE_CONFIG": str(tmp_path / "absent.toml")})


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("64MiB", 64 << 20), ("8 GB", 8 * 10**9), ("1t", 10**12)]
)
def test_sizes(home: dict[str, str], text: str, size: int) -> None:
    env = home | {"INFERSCALE_ENGINE_BANK_SIZE_BYTES": text}
    if size < 64 << 20:
        with pytest.raises(ConfigError, match="greater than or equal"):
            load(env=env)
    else:
        assert load(env=env).engine.bank_size_bytes == size


def test_engine_arguments_are_split_like_a_shell(home: dict[str, str]) -> None:
    env = home | {"INFERSCALE_ENGINE_ARGS": "--a 'b c'"}
    assert load(env=env).engine.args == ("--a", "b c")


def test_settings_cannot_change(home: dict[str, str]) -> None:
    config = load(env=home)
    with pytest.raises(ValueError, match="frozen"):
        config.server.port = 1  # type: ignore[misc]


def test_every_setting_has_an_environment_variable_and_a_description() -> None:
    for section, model in sections().items():
        for name, field in model.model_fields.items():
            assert field.description, f"{section}.{name} has no docstring"
            assert env_name(f"{section}.{name}") == f"INFERSCALE_{section}_{name}".upper()
