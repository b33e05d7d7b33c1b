"""Settings of the sidecar: `load()` gives a frozen `Config`."""

from inferscale_sidecar.config.load import env_name, load, sections
from inferscale_sidecar.config.schema import (
    AuthConfig,
    Config,
    EmbedConfig,
    EngineConfig,
    InjectConfig,
    ServerConfig,
    StoreConfig,
)
from inferscale_sidecar.config.tenant_sections import LimitsConfig

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
