"""Settings about what tenants keep. The docstrings are the documentation."""

from pydantic import Field

from inferscale_sidecar.config.section import ByteSize, Seconds, Section


class ThreadsConfig(Section):
    """Conversation threads."""

    summary_after: int = Field(default=0, ge=0, le=1_000)
    """Summarize what is older than so many last messages, once as many again are. 0: nothing."""
    summary_max_tokens: int = Field(default=512, ge=64)
    """Most that the model may write for one step of a summary."""


class LimitsConfig(Section):
    """What each tenant may use; 0: no limit. `tenants limits` sets other values for one tenant."""

    read_per_minute: int = Field(default=0, ge=0)
    """Reads, searches and recalls in any 60 seconds, per sidecar."""
    write_per_minute: int = Field(default=0, ge=0)
    """Requests that add, change or delete in any 60 seconds, per sidecar."""
    chat_per_minute: int = Field(default=0, ge=0)
    """Requests to the model in any 60 seconds, per sidecar."""
    streams: int = Field(default=0, ge=0)
    """Streamed answers at the same time, per sidecar."""
    memories: int = Field(default=0, ge=0)
    """Memories, with the messages kept behind facts and what was superseded."""
    memories_per_user: int = Field(default=0, ge=0)
    """The same, of one `user_id`."""
    blocks: int = Field(default=0, ge=0)
    """Pinned blocks."""
    threads: int = Field(default=0, ge=0)
    """Threads."""
    messages: int = Field(default=0, ge=0)
    """Messages of all threads."""
    documents: int = Field(default=0, ge=0)
    """Documents of the store."""
    text_bytes: ByteSize = Field(default=0, ge=0)
    """Text of memories, blocks, messages and documents, in bytes of UTF-8; accepts `10MiB`."""
    text_bytes_per_memory: ByteSize = Field(default=0, ge=0)
    """Text of one memory; never more than 65,536 bytes."""


class ExpiryConfig(Section):
    """What becomes of memories whose time is over. They are out of reach at once in any case."""

    sweep_s: Seconds = 60
    """Seconds between two sweeps, which remove them for good."""
    keep_s: float = Field(default=60, ge=0)
    """How long they are kept for `show_expired`. More than sidecars' clocks may differ by."""
