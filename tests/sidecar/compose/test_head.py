"""Token ids of lists, with the real demo tokenizer: they are those of the rendered chat prompt."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.sidecar.engine.demo import demo_lists, demo_tokenizer

from inferscale_sidecar.compose.frame import FOOTER
from inferscale_sidecar.compose.head import SPECIAL, STRADDLES, ListTokenizer
from inferscale_sidecar.core import PinnedBlock
from inferscale_sidecar.engine.tokenizer import ChatTokenizer, Encoded
from inferscale_sidecar.errors import Unsupported

from .test_frame import texts

SYSTEMS = ("", "Be brief.", "You are a pirate.\n- one\n", "説明 👩‍👩‍👧‍👦 <|x|>")


def chat_ids(items: list[str], system: str) -> tuple[int, ...]:
    """What a served request with this memory has as its prompt."""
    frame, tokenizer = demo_lists().frame, demo_tokenizer()
    messages = [{"role": "user", "content": "Where?"}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    return tokenizer.encode(tokenizer.render(frame.place(messages, frame.render(items)))).ids


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=7), st.sampled_from(SYSTEMS))
@example(["日本語です。", "👩‍👩‍👧‍👦", " lead", "a\nb", "x" * 3000], "Be brief.")
def test_item_ids_stand_side_by_side_in_the_chat_prompt(items, system):
    tokens = demo_lists().split(items)
    assert [t.refused for t in tokens.items] == [None] * len(items)
    run = tuple(i for n in range(len(items)) for i in tokens.item_ids(n))
    prompt = chat_ids(items, system)
    assert any(prompt[n : n + len(run)] == run for n in range(len(prompt)))


@settings(deadline=None)
@given(st.lists(texts, min_size=2, max_size=5))
def test_item_ids_do_not_depend_on_neighbours(items):
    together = demo_lists().split(items)
    for n, item in enumerate(items):
        assert demo_lists().split([item]).item_ids(0) == together.item_ids(n)


@settings(deadline=None)
@given(st.lists(texts, min_size=1, max_size=5))
def test_memory_opens_no_role_and_holds_no_special_token(items):
    tokenizer = demo_tokenizer()
    tokens = demo_lists().split(items)
    for n in range(len(items)):
        assert not tokenizer.special_ids.intersection(tokens.item_ids(n))
    prompt = chat_ids(items, "")
    harmless = chat_ids(["tea"] * len(items), "")
    assert sum(i in tokenizer.special_ids for i in prompt) == sum(
        i in tokenizer.special_ids for i in harmless
    )


def test_items_are_contiguous_from_the_head_on():
    tokens = demo_lists().split(["a", "b c d", "e"])
    assert tokens.items[0].start == tokens.head_end > 0
    for before, after in zip(tokens.items, tokens.items[1:], strict=False):
        assert before.end == after.start
    assert len(tokens.ids) > tokens.items[-1].end


def test_the_footer_keeps_the_last_newline_with_its_item():
    tokens = demo_lists().split(["a"])
    rest = tokens.ids[tokens.items[0].end :]
    assert rest == demo_tokenizer().encode(FOOTER).ids


class Glued(ChatTokenizer):
    """A tokenizer whose newline swallows the next bullet, as some do."""

    def encode(self, text: str) -> Encoded:
        return _glue(super().encode(text), text)


def _glue(encoded: Encoded, text: str) -> Encoded:
    ids, offsets = [], []
    for token, (start, end) in zip(encoded.ids, encoded.offsets, strict=True):
        if offsets and text[offsets[-1][0] : end] == "\n-" and start > 100:
            offsets[-1] = (offsets[-1][0], end)
            continue
        ids.append(token)
        offsets.append((start, end))
    return Encoded(tuple(ids), tuple(offsets))


def test_an_item_that_shares_a_token_with_its_neighbour_is_refused(hf_tokenizer):
    lists = ListTokenizer.for_model(Glued(hf_tokenizer))
    refused = [t.refused for t in lists.split(["first", "second", "third"]).items]
    assert refused == [STRADDLES] * 3


def test_a_special_token_that_slipped_through_is_refused(hf_tokenizer):
    class Odd(ChatTokenizer):
        def encode(self, text: str) -> Encoded:
            encoded = super().encode(text)
            tea = super().encode(" tea").ids[0]
            return Encoded(tuple(1 if i == tea else i for i in encoded.ids), encoded.offsets)

    refused = [
        t.refused for t in ListTokenizer.for_model(Odd(hf_tokenizer)).split(["my tea", "x"]).items
    ]
    assert refused == [SPECIAL, None]


def test_a_template_that_changes_the_block_is_unsupported(hf_tokenizer):
    shouting = ChatTokenizer(
        hf_tokenizer,
        chat_template="{% for m in messages %}{{ m['content'] | upper }}{% endfor %}",
    )
    with pytest.raises(Unsupported, match="chat template"):
        ListTokenizer.for_model(shouting).split(["a"])


def test_a_template_without_a_system_role_puts_memory_into_the_user_message(hf_tokenizer):
    strict = ChatTokenizer(
        hf_tokenizer,
        chat_template="{% for m in messages %}{% if m['role'] == 'system' %}"
        "{{ raise_exception('no system role') }}{% endif %}[{{ m['content'] | trim }}]{% endfor %}",
    )
    lists = ListTokenizer.for_model(strict)
    assert lists.placement == "user"
    assert lists.split(["a"]).items[0].refused is None


def test_a_model_without_a_template_is_encoded_as_plain_text(hf_tokenizer):
    plain = ChatTokenizer(hf_tokenizer)
    plain._template = None
    tokens = ListTokenizer.for_model(plain).split(["a"])
    assert tokens.ids == demo_tokenizer().encode(demo_lists().frame.render(["a"])).ids


def test_what_is_shown_stands_behind_an_opening_that_every_prompt_has():
    frame, tokenizer, openings = demo_lists().frame, demo_tokenizer(), demo_lists().openings
    assert len(openings.items) > 8 and len(openings.pinned) > 8
    blocks = [PinnedBlock("b", 1, "human", "Name: Noor", "who she is")]
    for system in SYSTEMS:
        for question in ("Where?", "説明"):
            messages = [{"role": "system", "content": system}] if system else []
            messages.append({"role": "user", "content": question})
            block = frame.render(["Likes tea."], blocks)
            for placement in ("system", "user", "last"):
                placed = frame.place(messages, block, placement=placement)
                ids = tokenizer.encode(tokenizer.render(placed)).ids
                for opening in (openings.items, openings.pinned):
                    size = len(opening)
                    assert [n for n in range(len(ids)) if ids[n : n + size] == opening]
