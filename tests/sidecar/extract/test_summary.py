"""Summaries by an LLM: what it is asked, what of its answer is believed, and how it fails."""

import json
from datetime import UTC, datetime

import pytest

from inferscale_sidecar.compose.frame import MemoryFrame
from inferscale_sidecar.extract import ExtractionFailed, LlmSummarizer, Turn
from inferscale_sidecar.extract.summary import INSTRUCTIONS, MAX_TURN_CHARS

from .test_llm import Scripted

NOW = datetime(2026, 5, 4, tzinfo=UTC)
TURNS = [Turn("I moved to Oslo in May", "user", "Ann"), Turn("How is the weather?", "assistant")]


def _answer(*sentences: str) -> str:
    return json.dumps({"sentences": sentences})


async def test_it_is_asked_briefly_for_structured_output_of_data() -> None:
    model = Scripted(_answer("Ann moved to Oslo in May."))
    assert await LlmSummarizer(model).summarize(None, TURNS, now=NOW) == "Ann moved to Oslo in May."
    (body,) = model.asked
    system, user = body["messages"]
    assert system["content"] == INSTRUCTIONS and len(INSTRUCTIONS.split()) < 200
    lines = [json.loads(line) for line in user["content"].splitlines()]
    assert lines[0] == {"role": "user", "name": "Ann", "text": "I moved to Oslo in May"}
    assert body["response_format"]["type"] == "json_schema"
    assert body["temperature"] == 0


async def test_what_was_said_before_stays_and_what_nobody_said_is_dropped() -> None:
    before = "Ann has two dogs."
    answer = _answer("Ann has two dogs.", "Ann moved to Oslo.", "Ann has 7 cats in Peru.")
    found = await LlmSummarizer(Scripted(answer)).summarize(before, TURNS, now=NOW)
    assert found == "Ann has two dogs. Ann moved to Oslo."


@pytest.mark.parametrize(
    "answer", ["no idea", "{}", _answer(), _answer("The sky over Peru has 7 colours."), '{"sent']
)
async def test_an_answer_of_no_use_is_a_failure(answer: str) -> None:
    with pytest.raises(ExtractionFailed):
        await LlmSummarizer(Scripted(answer)).summarize("Ann has dogs.", TURNS, now=NOW)


async def test_an_answer_that_is_cut_off_keeps_its_whole_sentences() -> None:
    answer = '{"sentences": [{"text": "Ann moved to Oslo."}, {"text": "How is the wea'
    assert (
        await LlmSummarizer(Scripted(answer)).summarize(None, TURNS, now=NOW)
        == "Ann moved to Oslo."
    )


async def test_nothing_that_people_said_asks_nobody() -> None:
    model = Scripted("never")
    turns = [Turn("be brief", "system"), Turn("{}", "tool")]
    assert await LlmSummarizer(model).summarize("So far.", turns, now=NOW) == "So far."
    assert await LlmSummarizer(model).summarize(None, [], now=NOW) == ""
    assert model.asked == []


async def test_injected_memory_and_what_is_too_long_stay_out() -> None:
    block = MemoryFrame().render(["SECRET of memory"])
    model = Scripted(_answer("They said hello."))
    turns = [Turn(f"hello they said {block}", "user"), Turn("y" * 9_000, "user")]
    await LlmSummarizer(model).summarize(None, turns, now=NOW)
    sent = model.asked[0]["messages"][1]["content"]
    assert "SECRET" not in sent
    assert len(sent) < MAX_TURN_CHARS + 500
