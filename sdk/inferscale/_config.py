"""How a client is set up: arguments first, then the environment, then the defaults.

Owns every default and the only reads of environment variables. A bad value is an error that names
the setting, the value and the form it should have; the API key never shows in a repr.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from inferscale.errors import InvalidArgumentError

DEFAULT_BASE_URL = "http://127.0.0.1:8420"
DEFAULT_TIMEOUT_S = 120.0
DEFAULT_MAX_RETRIES = 2
BASE_URL_ENV = "INFERSCALE_BASE_URL"
API_KEY_ENV = "INFERSCALE_API_KEY"


@dataclass(frozen=True)
class ClientConfig:
    """Where the sidecar is and how long to try. Build with `create_config`."""

    base_url: str
    api_key: str | None = field(repr=False)
    timeout_s: float
    max_retries: int

    @property
    def is_local(self) -> bool:
        """True if the sidecar runs on this machine."""
        host = httpx.URL(self.base_url).host
        return host in ("localhost", "::1") or host.startswith("127.")


def create_config(
    *,
    base_url: str | None,
    api_key: str | None,
    timeout_s: float,
    max_retries: int,
    environ: Mapping[str, str] = os.environ,
) -> ClientConfig:
    """The validated settings of one client.

    Raises:
        InvalidArgumentError: a value that no client could work with.
    """
    if not timeout_s > 0:
        raise InvalidArgumentError(
            f"timeout_s is {timeout_s!r}; it must be a number of seconds > 0."
        )
    if max_retries < 0:
        raise InvalidArgumentError(f"max_retries is {max_retries!r}; it must be 0 or more.")
    return ClientConfig(
        base_url=resolve_base_url(base_url, environ),
        api_key=resolve_api_key(api_key, environ),
        timeout_s=timeout_s,
        max_retries=max_retries,
    )


def resolve_base_url(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """The sidecar's root address, without a trailing slash or `/v1` (both are accepted)."""
    text = given or environ.get(BASE_URL_ENV) or DEFAULT_BASE_URL
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise InvalidArgumentError(f"base_url {text!r} is not a URL: {error}.") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidArgumentError(
            f"base_url is {text!r}; it must look like {DEFAULT_BASE_URL!r}, with http:// or https://."
        )
    return text.rstrip("/").removesuffix("/v1").rstrip("/")


def resolve_api_key(given: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The API key, or None if none is set. An empty string counts as none."""
    key = given or environ.get(API_KEY_ENV) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise InvalidArgumentError(
            "api_key contains a blank, a line break or a non-ASCII character; "
            "was it copied with its surroundings?"
        )
    return key
