"""Which memory a request names, and with which query."""

from typing import Any

import pytest

from inferscale_shared.attach import MAX_QUERY_CHARS, attach

SCOPE = {"user_id": "alice", "k": 3}
HANDLE = {"handle": "mh_1"}


@pytest.mark.parametrize(
    ("memory", "said", "named"),
    [
        (SCOPE, "where?", {**SCOPE, "query": "where?"}),
        (SCOPE, " a\x00b\n", {**SCOPE, "query": "a b"}),
        (SCOPE, "x" + "y" * MAX_QUERY_CHARS, {**SCOPE, "query": "y" * MAX_QUERY_CHARS}),
        ({**SCOPE, "query": "own"}, "where?", {**SCOPE, "query": "own"}),
        (HANDLE, None, HANDLE),
        (HANDLE, "where?", HANDLE),
    ],
)
def test_the_query_is_what_the_user_said(memory: Any, said: Any, named: Any) -> None:
    body = {"top_k": 5}
    assert attach(body, memory, said) == {"top_k": 5, "memory": named}
    assert body == {"top_k": 5}


@pytest.mark.parametrize("said", [None, "", " \n", "\x00"])
def test_without_words_there_is_nothing_to_search_with(said: str | None) -> None:
    assert attach(None, SCOPE, said) == {}


@pytest.mark.parametrize("named", [None, {"user_id": "bob"}])
def test_what_the_request_names_itself_wins(named: Any) -> None:
    assert attach({"memory": named}, SCOPE, "where?") == {"memory": named}
