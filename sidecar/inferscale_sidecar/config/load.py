"""The one loader: flags over environment over TOML file over defaults.

Owns precedence and error texts. Does not own the settings themselves (`schema`).
Invariant: a wrong or unknown setting stops the start and names key, value and source.
"""

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from inferscale_sidecar.config.schema import Config
from inferscale_sidecar.errors import ConfigError

FILE_ENV = "INFERSCALE_CONFIG"
HOME_ENV = "INFERSCALE_HOME"
_SECRET_KEYS = frozenset({"engine.secret", "store.url"})


@dataclass(frozen=True)
class _Given:
    """One value as somebody gave it, and where."""

    value: Any
    source: str


def sections() -> dict[str, type[BaseModel]]:
    """The sections by name, in the order in which they are documented."""
    found = {}
    for name, field in Config.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found[name] = field.annotation
    return found


def env_name(key: str) -> str:
    """`server.port` → `INFERSCALE_SERVER_PORT`."""
    return "INFERSCALE_" + key.replace(".", "_").upper()


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Config:
    """Read all sources and check them.

    Args:
        flags: dotted key to value (`{"server.port": 8000}`); None as a value means "not given".
        env: the environment; the process's own if None.
        file: a TOML file; else the one that `INFERSCALE_CONFIG` names, else `config.toml` in the
            home folder if it exists.

    Raises:
        ConfigError: a setting is unknown or wrong, or the file cannot be read.
    """
    env = os.environ if env is None else env
    home, cache = _default_dirs(env)
    given = _from_file(_find_file(file, env, home))
    given |= _from_env(env)
    given |= {k: _Given(v, "command line") for k, v in (flags or {}).items() if v is not None}
    return _validate(home, cache, given)


def _default_dirs(env: Mapping[str, str]) -> tuple[Path, Path]:
    """Home and cache: both `INFERSCALE_HOME` if set, else the XDG data and cache folders."""
    if env.get(HOME_ENV):
        return Path(env[HOME_ENV]).expanduser(), Path(env[HOME_ENV]).expanduser()
    data = Path(env.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    cache = Path(env.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return data / "inferscale", cache / "inferscale"


def _find_file(file: Path | None, env: Mapping[str, str], home: Path) -> Path | None:
    if file is not None:
        return file
    if env.get(FILE_ENV):
        return Path(env[FILE_ENV])
    usual = home / "config.toml"
    return usual if usual.is_file() else None


def _from_file(path: Path | None) -> dict[str, _Given]:
    if path is None:
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read settings file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"settings file {path} is not valid TOML: {error}") from error
    given = {}
    for section, table in content.items():
        if not isinstance(table, dict):
            raise _unknown(section, f"file {path}")
        for name, value in table.items():
            given[f"{section}.{name}"] = _Given(value, f"file {path}")
    return given


def _from_env(env: Mapping[str, str]) -> dict[str, _Given]:
    given = {}
    for name, value in env.items():
        for section in sections():
            prefix = env_name(section) + "_"
            if name.startswith(prefix):
                key = f"{section}.{name.removeprefix(prefix).lower()}"
                given[key] = _Given(value, f"environment variable {name}")
    return given


def _validate(home: Path, cache: Path, given: Mapping[str, _Given]) -> Config:
    nested: dict[str, Any] = {"home": home, "cache": cache}
    known = {f"{s}.{name}" for s, model in sections().items() for name in model.model_fields}
    for key, item in given.items():
        if key not in known:
            raise _unknown(key, item.source, sorted(known))
        section, name = key.split(".", 1)
        nested.setdefault(section, {})[name] = item.value
    try:
        return Config.model_validate(nested)
    except ValidationError as error:
        raise _wrong(error, given) from error


def _wrong(error: ValidationError, given: Mapping[str, _Given]) -> ConfigError:
    lines = []
    for problem in error.errors(include_url=False):
        key = ".".join(str(part) for part in problem["loc"][:2])
        item = given.get(key, _Given(problem.get("input"), "default"))
        value = "(hidden)" if key in _SECRET_KEYS else repr(item.value)
        lines.append(f"{key} = {value} (from {item.source}): {problem['msg']}")
    return ConfigError("; ".join(lines), param=key)


def _unknown(key: str, source: str, known: list[str] | None = None) -> ConfigError:
    near = difflib.get_close_matches(key, known or list(sections()), n=1)
    hint = f"did you mean {near[0]}" if near else "docs/configuration.md lists all settings"
    return ConfigError(f"unknown setting {key} (from {source}); {hint}", param=key)
