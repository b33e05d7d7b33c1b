"""Encode policies as pure data, and what they make of a window."""

import pytest

from inferscale_sidecar.build.policy import EncodePolicy
from inferscale_sidecar.build.window import WindowLimits
from inferscale_sidecar.compose.generic import GENERIC_ITEMS
from inferscale_sidecar.core import BuildItem
from inferscale_sidecar.errors import ConfigError

from .test_window import items, plan, text_of


def names(of) -> list[str]:
    return [item.memory_id for item in of]


@pytest.mark.parametrize("text", ["recent(8)", "generic(16)", "similar(8)+recent(8)"])
def test_a_name_says_all_that_the_policy_does(text):
    assert EncodePolicy.parse(text.replace("+", " + ")).name == text
    assert EncodePolicy.parse(text) == EncodePolicy.parse(EncodePolicy.parse(text).name)


@pytest.mark.parametrize(
    "text",
    ["", "recent", "recent(-1)", "newest(8)", "recent(8)+recent(8)", "recent(40)+similar(40)"],
)
def test_what_is_no_policy_is_refused_by_name(text):
    with pytest.raises(ConfigError, match="encode policy") as caught:
        EncodePolicy.parse(text)
    assert repr(text) in str(caught.value)


def test_the_context_stands_in_the_order_of_the_name_and_made_up_items_fill_up_in_front():
    recent, similar = items("a", "b", "c"), items("x", "y", "z", first=50)
    context = EncodePolicy.parse("similar(2)+recent(2)").context(recent, similar)
    assert names(context.behind) == ["m051", "m052", "m001", "m002"] and not context.generic
    context = EncodePolicy.parse("similar(4)+recent(4)").context(recent, similar[:1])
    assert context.generic == GENERIC_ITEMS[:4]
    assert names(context.behind) == ["m050", "m000", "m001", "m002"]


def test_an_item_that_is_recent_and_similar_stands_once():
    own = items("a", "b", "c", "d")
    context = EncodePolicy.parse("similar(2)+recent(2)").context(own, own)
    assert names(context.behind) == ["m000", "m001", "m002", "m003"]


def test_an_isolated_item_is_encoded_alone_behind_made_up_ones_only():
    earlier, new = items("Owns a boat."), items("Likes tea.", "Likes cake.", first=9)
    prompt = plan(new, earlier, limits=WindowLimits(policy="generic(4)"))
    (planned,) = prompt.planned
    assert planned.item == new[0] and planned.behind == () and prompt.left_over == (new[1],)
    text = text_of(prompt.ids)
    assert GENERIC_ITEMS[3] in text and GENERIC_ITEMS[4] not in text
    assert "boat" not in text and "cake" not in text


def test_keys_of_two_policies_differ_even_where_their_prompts_do_not():
    new: list[BuildItem] = items("Likes tea.")
    one = plan(new, limits=WindowLimits(policy="recent(8)"))
    two = plan(new, limits=WindowLimits(policy="generic(8)"))
    assert one.ids == two.ids
    assert one.captures[0].key != two.captures[0].key


def test_without_a_policy_it_is_the_number_of_previous_items():
    assert WindowLimits(context=5).encode_policy == EncodePolicy.parse("recent(5)")


def test_similar_items_are_part_of_what_an_item_depends_on():
    new, similar = items("Likes tea."), items("Drinks tea daily.", first=70)
    limits = WindowLimits(policy="similar(1)+recent(1)")
    prompt = plan(new, items("Owns a boat.", first=60), limits=limits, similar=similar)
    assert prompt.planned[0].behind == ("m070", "m060")
    assert text_of(prompt.ids).index("Drinks tea daily.") < text_of(prompt.ids).index("boat")
