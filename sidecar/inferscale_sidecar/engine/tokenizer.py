"""The served model's tokenizer and chat template, run locally: exact token ids with exact offsets.

Owns loading and the two calls `render` and `encode`. Does not know memory. Invariant: `render` and
`encode` give what vLLM gives for the same messages; the start-up self-test compares them once with
the engine.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inferscale_sidecar.errors import Unsupported

_MIN_MARKER_CHARS, _MAX_MARKER_CHARS = 3, 48

Message = Mapping[str, Any]


@dataclass(frozen=True)
class Encoded:
    """Token ids and, for each, the [start, end) characters of the text that it covers."""

    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]


class ChatTokenizer:
    """A fast Hugging Face tokenizer with its chat template.

    Args:
        tokenizer: a `PreTrainedTokenizerFast`.
        chat_template: overrides the tokenizer's own (vLLM's `--chat-template`).

    Raises:
        Unsupported: the tokenizer has no fast (Rust) backend, so offsets are unknown.
    """

    def __init__(self, tokenizer: Any, *, chat_template: str | None = None) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise Unsupported(
                f"tokenizer {type(tokenizer).__name__} has no fast backend, so memory cannot be "
                "encoded for this model; it is served as text"
            )
        self._hf = tokenizer
        self._template = chat_template or tokenizer.chat_template
        self._raw = _without_post_processor(backend)
        added = tokenizer.added_tokens_decoder
        self.markers = tuple(t.content for t in added.values() if t.special or t.content.strip())
        """Text of every added token: what a text must not contain to stay a text."""
        self.special_ids = frozenset(
            [i for i, t in added.items() if t.special] + list(tokenizer.all_special_ids)
        )
        """Ids that text must never turn into."""

    @classmethod
    def load(cls, model: str, *, chat_template: str | None = None) -> "ChatTokenizer":
        """Loads from a model folder or hub name. Blocking, takes seconds: run it in a thread."""
        from transformers import AutoTokenizer  # heavy: only when an engine is used

        return cls(AutoTokenizer.from_pretrained(model), chat_template=chat_template)

    @property
    def has_chat_template(self) -> bool:
        return bool(self._template)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **template_args: Any,
    ) -> str:
        """The prompt text of a chat, as vLLM renders it.

        Raises:
            jinja2.TemplateError: the template refuses these messages (e.g. no system role).
        """
        rendered = self._hf.apply_chat_template(
            [dict(m) for m in messages],
            tools=[dict(t) for t in tools] if tools else None,
            chat_template=self._template,
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
            **template_args,
        )
        return str(rendered)

    def encode(self, text: str) -> Encoded:
        """Token ids of a text with no special tokens added, and their offsets in characters."""
        encoding = self._raw.encode(text, add_special_tokens=False)
        return Encoded(tuple(encoding.ids), tuple(encoding.offsets))

    def count(self, text: str) -> int:
        """How many tokens a text has, with no special tokens added."""
        return len(self._raw.encode(text, add_special_tokens=False).ids)

    def leading_ids(self) -> tuple[int, ...]:
        """What the tokenizer puts before a plain (not chat) prompt, e.g. `<bos>`."""
        probe = "a"
        plain = list(self.encode(probe).ids)
        ids = list(self._hf(probe, add_special_tokens=True)["input_ids"])
        for start in range(len(ids)):
            if ids[start : start + len(plain)] == plain:
                return tuple(ids[:start])
        return ()

    @cached_property
    def role_markers(self) -> tuple[str, ...]:
        """What this template writes between messages, line by line: text that could open a role."""
        names = ("\u2045system\u2046", "\u2045user\u2046", "\u2045assistant\u2046")
        chat = [{"role": n[1:-1], "content": n} for n in names]
        for messages in (chat, chat[1:]):
            try:
                rendered = self.render(messages, add_generation_prompt=True)
            except Exception:  # noqa: BLE001 - a template is a program of the model's author
                continue
            for name in names:
                rendered = rendered.replace(name, "\n")
            lines = {line.strip() for line in rendered.splitlines()}
            return tuple(sorted(line for line in lines if _opens_a_role(line)))
        return ()


def _opens_a_role(line: str) -> bool:
    """Not prose of the template: no bare words, no dates, nothing long."""
    is_word = line.isalnum() or any(c.isdigit() for c in line)
    return _MIN_MARKER_CHARS <= len(line) <= _MAX_MARKER_CHARS and not is_word


def _without_post_processor(backend: Any) -> Any:
    """A copy whose offsets are raw: post-processors of byte-level models trim spaces off them."""
    from tokenizers import Tokenizer

    state = json.loads(backend.to_str())
    state["post_processor"] = None
    state["truncation"] = state["padding"] = None
    return Tokenizer.from_str(json.dumps(state))
