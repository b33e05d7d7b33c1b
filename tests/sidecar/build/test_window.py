"""Windows as pure data: ids, captures, contexts and keys."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sidecar.compose.test_frame import texts
from tests.sidecar.engine.demo import demo_lists, demo_tokenizer

from inferscale_sidecar.build.window import BuildPrompt, WindowLimits, plan_window
from inferscale_sidecar.compose.generic import GENERIC_ITEMS
from inferscale_sidecar.core import BuildItem

from .fake_store import TENANTS

ACME, GLOBEX = TENANTS["acme"], TENANTS["globex"]


def items(*given_texts: str, first: int = 0) -> list[BuildItem]:
    return [
        BuildItem(f"m{first + n:03}", 1, "acme", "user:alice", t) for n, t in enumerate(given_texts)
    ]


def plan(
    new,
    previous=(),
    *,
    limits=WindowLimits(),  # noqa: B008
    tenant=ACME,
    model="demo",
    similar=(),
) -> BuildPrompt:
    return plan_window(
        new,
        previous,
        tenant=tenant,
        model=model,
        lists=demo_lists(),
        limits=limits,
        similar=similar,
    )


def text_of(ids) -> str:
    return demo_tokenizer()._hf.decode(ids)


@settings(deadline=None, max_examples=40)
@given(st.lists(texts, min_size=1, max_size=6), st.integers(0, 3))
def test_each_capture_is_exactly_its_item(new, before):
    earlier, later = items(*["an earlier fact"] * before), items(*new, first=100)
    prompt = plan(later, earlier)
    assert [p.item for p in prompt.planned] == later
    assert not prompt.refused and not prompt.left_over
    for planned, text in zip(prompt.planned, new, strict=True):
        ids = prompt.ids[planned.capture.start : planned.capture.end]
        assert ids == demo_lists().split([text]).item_ids(0)
    for a, b in zip(prompt.captures, prompt.captures[1:], strict=False):
        assert a.end <= b.start
    assert len(prompt.ids) == prompt.captures[-1].end + 1


def test_a_first_item_is_encoded_behind_eight_generic_ones():
    prompt = plan(items("Likes tea."))
    text = text_of(prompt.ids)
    assert all(line in text for line in GENERIC_ITEMS[:8])
    assert GENERIC_ITEMS[8] not in text
    assert prompt.planned[0].behind == ()


def test_previous_items_replace_generic_ones_and_are_remembered():
    earlier = items(*(f"Fact number {n}." for n in range(10)))
    prompt = plan(items("Likes tea.", "Likes cake.", first=50), earlier)
    text = text_of(prompt.ids)
    assert GENERIC_ITEMS[0] not in text and "Fact number 1." not in text
    last_eight = tuple(i.memory_id for i in earlier[2:])
    assert prompt.planned[0].behind == last_eight
    assert prompt.planned[1].behind == (*last_eight, "m050")


def test_what_does_not_fit_is_left_over_in_order():
    new = items(*(f"Fact number {n} about something." for n in range(30)))
    by_count = plan(new, limits=WindowLimits(items=12))
    assert [p.item for p in by_count.planned] == new[:12]
    assert list(by_count.left_over) == new[12:]
    by_tokens = plan(new, limits=WindowLimits(tokens=len(by_count.ids)))
    assert [p.item for p in by_tokens.planned] == new[:12]
    assert len(by_tokens.ids) <= len(by_count.ids)


def test_an_item_longer_than_a_window_is_refused_and_the_rest_goes_on():
    new = items("word " * 500, "Likes tea.")
    prompt = plan(new, limits=WindowLimits(tokens=400))
    ((item, reason),) = prompt.refused
    assert item == new[0] and "400" in reason
    assert list(prompt.left_over) == new[1:] and not prompt.ids


def test_a_long_previous_item_never_crowds_out_the_new_one():
    prompt = plan(items("Likes tea.", first=9), items("word " * 3000), limits=WindowLimits())
    assert [p.behind for p in prompt.planned] == [()]


def test_keys_differ_by_tenant_model_context_memory_and_version():
    item = items("Likes tea.", first=7)
    base = plan(item)
    others = [
        plan(item, tenant=GLOBEX),
        plan(item, model="other"),
        plan(item, items("Lives in Rome.")),
        plan([replace(item[0], version=2)]),
        plan([replace(item[0], memory_id="m999")]),
    ]
    keys = [p.planned[0].capture.key for p in (base, *others)]
    assert len(set(keys)) == len(keys)
    assert plan(item).planned[0].capture.key == keys[0]


def test_nothing_new_is_nothing_to_send():
    assert plan([]) == BuildPrompt((), (), (), ())
