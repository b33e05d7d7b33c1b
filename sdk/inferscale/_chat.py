"""What `chat` returns: the objects of OpenAI's Chat Completions API, as this package's own models.

Fields that are not named here (logprobs, reasoning_content, …) are kept and readable as attributes.
Owns no I/O.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from inferscale._results import MemoryReport


class ChatModel(BaseModel):
    """Base: unknown fields are kept, so that everything the engine says gets through."""

    model_config = ConfigDict(extra="allow", frozen=True)


class FunctionCall(ChatModel):
    """Name and JSON arguments of a called function; in chunks, a piece of them."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(ChatModel):
    """One tool call of the model; in chunks, a piece of the call with this `index`."""

    id: str | None = None
    index: int | None = None
    type: str | None = None
    function: FunctionCall | None = None


class ChatMessage(ChatModel):
    """The model's message; in chunks, what was added to it. May be sent back as a message."""

    role: str | None = None
    content: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(ChatModel):
    """One answer."""

    index: int = 0
    message: ChatMessage
    finish_reason: str | None = None


class ChunkChoice(ChatModel):
    """A piece of one answer."""

    index: int = 0
    delta: ChatMessage
    finish_reason: str | None = None


class Usage(ChatModel):
    """Token counts. Injected tokens count as `prompt_tokens_details.cached_tokens` too."""

    prompt_tokens: int = 0
    completion_tokens: int | None = None
    total_tokens: int = 0
    prompt_tokens_details: dict[str, Any] | None = None


class ChatCompletion(ChatModel):
    """A whole answer. `memory` says what happened to the memory of the request."""

    id: str
    object: str = "chat.completion"
    created: int = 0
    model: str = ""
    choices: list[Choice]
    usage: Usage | None = None
    memory: MemoryReport | None = None
    request_id: str | None = Field(default=None, exclude=True)

    @property
    def text(self) -> str:
        """Content of the first answer, or "" if it has none (a tool call)."""
        return (self.choices[0].message.content or "") if self.choices else ""


class ChatCompletionChunk(ChatModel):
    """A piece of a streamed answer. The last one may hold no choice, only `usage`."""

    id: str
    object: str = "chat.completion.chunk"
    created: int = 0
    model: str = ""
    choices: list[ChunkChoice]
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """Content added to the first answer, or ""."""
        return (self.choices[0].delta.content or "") if self.choices else ""
