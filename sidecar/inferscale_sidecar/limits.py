"""What a tenant may use: plain frozen data, as in `core`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a tenant may use. 0 means no limit, everywhere.

    `memories` counts every row that is kept, also the messages behind facts and what was
    superseded; `messages` are those of threads. `text_bytes` is the current text of memories,
    blocks, messages and documents in UTF-8. `streams` run at the same time.
    """

    read_per_minute: int = 0
    write_per_minute: int = 0
    chat_per_minute: int = 0
    streams: int = 0
    memories: int = 0
    memories_per_user: int = 0
    blocks: int = 0
    threads: int = 0
    messages: int = 0
    documents: int = 0
    text_bytes: int = 0
    text_bytes_per_memory: int = 0


NO_LIMITS = Limits()
