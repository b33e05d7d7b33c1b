"""Token ids of a memory list: the template head before its first item, and each item's own ids.

Owns the split of a rendered list into items. Does no I/O. Invariant: ids are exactly those that
the rendered chat prompt has. An item is its line with its newline; where a token straddles two
items, both are refused rather than guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from inferscale_sidecar.compose.frame import MemoryFrame, Placement
from inferscale_sidecar.compose.pinned import PINNED_HEADING
from inferscale_sidecar.core import PinnedBlock
from inferscale_sidecar.engine.tokenizer import ChatTokenizer, Encoded
from inferscale_sidecar.errors import Unsupported

STRADDLES = "a token straddles two items"
SPECIAL = "the text contains a special token"
_MARGIN_CHARS = 12


@dataclass(frozen=True)
class ItemTokens:
    """Where an item stands in the prompt: tokens [start, end).

    `refused` says why it cannot be encoded.
    """

    start: int
    end: int
    refused: str | None = None


@dataclass(frozen=True)
class ListTokens:
    """A rendered list as tokens: head, items, and at least one token of the footer.

    Attributes:
        ids: token ids from the prompt's first to the block's last.
        head_end: number of tokens before the first item (S0).
        items: one entry per text, in order.
    """

    ids: tuple[int, ...]
    head_end: int
    items: tuple[ItemTokens, ...]

    def item_ids(self, at: int) -> tuple[int, ...]:
        """Token ids of item number `at`."""
        return self.ids[self.items[at].start : self.items[at].end]


@dataclass(frozen=True)
class Openings:
    """Token ids inside the headings of both frames: what is shown in a frame stands behind the
    first place where they are found. Empty: nobody knows, so it may stand anywhere."""

    pinned: tuple[int, ...] = ()
    items: tuple[int, ...] = ()


class ListTokenizer:
    """Turns texts into the tokens that they have inside a rendered chat prompt. Pure; thread-safe.

    Args:
        tokenizer: of the served model.
        frame: how the block is rendered.
    """

    def __init__(self, tokenizer: ChatTokenizer, frame: MemoryFrame) -> None:
        self._tokenizer = tokenizer
        self._frame = frame
        self.placement: Placement = _placement(tokenizer)
        """Where this model's template lets the block stand."""

    @classmethod
    def for_model(cls, tokenizer: ChatTokenizer) -> "ListTokenizer":
        """With a frame that knows this model's markers."""
        return cls(tokenizer, MemoryFrame((*tokenizer.markers, *tokenizer.role_markers)))

    @property
    def frame(self) -> MemoryFrame:
        return self._frame

    def split(self, texts: Sequence[str]) -> ListTokens:
        """The prompt that a list is encoded in: nothing but the block in the first message.

        Args:
            texts: at least one memory text, unescaped.

        Raises:
            Unsupported: the chat template changes the block, so it cannot be found in a prompt.
        """
        lines = [self._frame.line(text) for text in texts]
        block = self._frame.render(texts)
        prompt, leading = self._canonical(block)
        start = prompt.rfind(block)
        if start < 0 or not lines:
            raise Unsupported(
                "the model's chat template does not keep the memory block as it is; "
                "memory is served as text"
            )
        encoded = self._tokenizer.encode(prompt[: start + len(block)])
        return self._assign(encoded, start + len(self._frame.heading), lines, leading)

    @cached_property
    def openings(self) -> Openings:
        """Of this model's prompts."""
        block = self._frame.render(["."], [PinnedBlock(".", 1, ".", ".")])
        prompt, _ = self._canonical(block)
        encoded = self._tokenizer.encode(prompt)
        headings = (PINNED_HEADING, self._frame.heading)
        return Openings(*(_inside(encoded, prompt.rfind(text), len(text)) for text in headings))

    def _canonical(self, block: str) -> tuple[str, tuple[int, ...]]:
        if not self._tokenizer.has_chat_template:
            return block, self._tokenizer.leading_ids()
        user = {"role": "user", "content": "."}
        messages = self._frame.place([user], block, placement=self.placement)
        return self._tokenizer.render(messages), ()

    def _assign(
        self, encoded: Encoded, at: int, lines: Sequence[str], leading: tuple[int, ...]
    ) -> ListTokens:
        """Tokens to items by offsets; `at` is the character where the first item begins."""
        starts = {begin: n for n, (begin, _) in reversed(list(enumerate(encoded.offsets)))}
        ends = {end: n + 1 for n, (_, end) in enumerate(encoded.offsets)}
        items: list[ItemTokens] = []
        token = head_end = len(leading) + ends.get(at, 0)
        for line in lines:
            first, last = starts.get(at), ends.get(at + len(line))
            at += len(line)
            if first is None or last is None:
                items.append(ItemTokens(token, token, STRADDLES))
                continue
            start, token = first + len(leading), last + len(leading)
            ids = encoded.ids[first:last]
            special = SPECIAL if self._tokenizer.special_ids.intersection(ids) else None
            items.append(ItemTokens(start, token, special))
        return ListTokens((*leading, *encoded.ids), head_end, tuple(items))


def _inside(encoded: Encoded, start: int, size: int) -> tuple[int, ...]:
    """Ids of the tokens well inside some characters: whatever stands around these, they stay."""
    if start < 0:
        return ()
    low, high = start + _MARGIN_CHARS, start + size - _MARGIN_CHARS
    inside = (low <= begin and end <= high for begin, end in encoded.offsets)
    return tuple(token for token, is_in in zip(encoded.ids, inside, strict=True) if is_in)


def _placement(tokenizer: ChatTokenizer) -> Placement:
    probe = [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]
    if not tokenizer.has_chat_template:
        return "system"
    try:
        tokenizer.render(probe)
    except Exception:  # noqa: BLE001 - a template is a program of the model's author; it refuses by raising
        return "user"
    return "system"
