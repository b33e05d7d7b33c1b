"""Settings of the sidecar: `load()` gives a frozen `Config`."""

from inferscale_sidecar.config.load import env_name, load, sections
from inferscale_sidecar.config.schema import (
    AuthConfig,
    Config,
    EmbedConfig,
    EngineConfig,
    InjectConfig,
    LimitsConfig,
    ServerConfig,
    StoreConfig,
)

__all__ = [
    "AuthConfig",
    "Config",
    "EmbedConfig",
    "EngineConfig",
    "InjectConfig",
    "LimitsConfig",
    "ServerConfig",
    "StoreConfig",
    "env_name",
    "load",
    "sections",
]
