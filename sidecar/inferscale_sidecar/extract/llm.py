"""Extraction by an LLM, in calls of bounded size, its answers checked against the messages."""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime

from inferscale.protocol.memory import check_text
from inferscale_sidecar.extract.answer import Claim, CutOff, read_claims
from inferscale_sidecar.extract.base import Extracted, ExtractionFailed, Fact, Turn
from inferscale_sidecar.extract.chat_model import ChatModel
from inferscale_sidecar.extract.ground import is_supported
from inferscale_sidecar.extract.injected import without_injected
from inferscale_sidecar.extract.prompt import request_body

MAX_CALL_CHARS = 6_000
MAX_CALL_TURNS = 24
MAX_HALVINGS = 2
"""How often the messages of a call are halved if the answer is cut off."""

_ROLES = ("user", "assistant", None)

Numbered = tuple[int, Turn]


class LlmExtractor:
    """Implements `Extractor`.

    Args:
        model: the LLM.
        max_tokens: most that one answer may have.
    """

    def __init__(self, model: ChatModel, *, max_tokens: int = 1_024) -> None:
        self._model = model
        self._max_tokens = max_tokens

    async def extract(self, turns: Sequence[Turn], *, now: datetime, salt: str = "") -> Extracted:
        said = [
            (at, Turn(text, turn.role, turn.speaker, turn.said_at))
            for at, turn in enumerate(turns)
            if turn.role in _ROLES and (text := without_injected(turn.text))
        ]
        facts: dict[str, Fact] = {}
        num_claims = dropped = 0
        for call in _calls(said):
            async for claim, among in self._ask(call, now, salt):
                num_claims += 1
                fact = _checked(claim, among, now)
                dropped += fact is None
                if fact is not None:
                    facts.setdefault(fact.text, fact)
        if num_claims and not facts:
            raise ExtractionFailed(
                f"none of the {num_claims} facts that the extraction model gave is in the messages",
                code="extraction_unusable",
            )
        found = sorted(facts.values(), key=lambda fact: fact.sources[0])
        return Extracted(tuple(found), dropped)

    async def _ask(
        self, call: Sequence[Numbered], now: datetime, salt: str, *, halvings: int = MAX_HALVINGS
    ) -> AsyncIterator[tuple[Claim, Sequence[Numbered]]]:
        """Claims with the messages that they were made of.

        Where the answer has no room for all of them, the messages are asked about in halves; in the
        end whole sentences count, without the one that the answer breaks off in.
        """
        body = request_body(call, now=now, max_tokens=self._max_tokens)
        try:
            claims = read_claims(await self._model.complete(body, salt=salt))
        except CutOff as error:
            if len(call) > 1 and halvings:
                for half in (call[: len(call) // 2], call[len(call) // 2 :]):
                    async for found in self._ask(half, now, salt, halvings=halvings - 1):
                        yield found
                return
            if not error.claims:
                raise
            claims = error.claims
        for claim in claims:
            yield claim, call

    async def close(self) -> None:
        await self._model.close()


def _calls(said: Sequence[Numbered]) -> Iterator[list[Numbered]]:
    """The messages in calls that any model can hold; a long message is cut into pieces."""
    call: list[Numbered] = []
    size = 0
    for at, turn in said:
        for piece in _pieces(turn.text):
            if call and (size + len(piece) > MAX_CALL_CHARS or len(call) >= MAX_CALL_TURNS):
                yield call
                call, size = [], 0
            call.append((at, Turn(piece, turn.role, turn.speaker, turn.said_at)))
            size += len(piece)
    if call:
        yield call


def _pieces(text: str) -> Iterator[str]:
    while len(text) > MAX_CALL_CHARS:
        space = text.rfind(" ", MAX_CALL_CHARS // 2, MAX_CALL_CHARS)
        cut = space if space > 0 else MAX_CALL_CHARS
        yield text[:cut]
        text = text[cut:].lstrip()
    yield text


def _checked(claim: Claim, call: Sequence[Numbered], now: datetime) -> Fact | None:
    """The claim as a fact of the messages that support it; None if none does."""
    try:
        check_text(claim.text)
    except ValueError:
        return None
    named = [(at, turn) for at, turn in call if at in claim.turns]
    for among in (named, call):  # a small model may name the wrong message
        texts = [turn.text for _, turn in among]
        if among and is_supported(claim.text, texts, known=_known(among, now)):
            if among is not named:
                among = [pair for pair in among if _supports(claim.text, pair[1], now)] or among
            return Fact(claim.text, tuple(sorted({at for at, _ in among})))
    return None


def _supports(text: str, turn: Turn, now: datetime) -> bool:
    return is_supported(text, [turn.text], known=_known([(0, turn)], now))


def _known(turns: Sequence[Numbered], now: datetime) -> list[str]:
    times = [(turn.said_at or now).date().isoformat() for _, turn in turns]
    return [*times, *(turn.speaker for _, turn in turns if turn.speaker)]
