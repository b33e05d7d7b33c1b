"""Handles: immutable, readable as text, discreet in logs."""

import copy
import dataclasses
import pickle

import pytest

from inferscale import MemoryHandle
from inferscale._handle import create_handle


@pytest.fixture
def handle(handle_body):
    return create_handle(handle_body)


def test_reads_as_its_text_and_names_itself_on_the_wire(handle, handle_body):
    assert str(handle) == f"{handle}" == handle.text == handle_body["text"]
    assert handle.as_field() == {"handle": handle_body["handle"]}
    assert len(handle) == 1 and handle.items[0]["memory"] == "Alice lives in Oslo"
    assert handle.expires_at.isoformat() == handle_body["expires_at"]


def test_repr_shows_neither_text_nor_the_whole_id(handle):
    assert "Oslo" not in repr(handle) and handle.id not in repr(handle)
    assert "items=1" in repr(handle)


def test_nothing_in_it_can_be_changed(handle):
    with pytest.raises(dataclasses.FrozenInstanceError):
        handle.text = "other"
    with pytest.raises(ValueError, match="frozen"):
        handle.items[0].memory = "other"
    with pytest.raises(TypeError):
        handle.items[0] = None


def test_equal_by_id_hashable_and_copyable(handle, handle_body):
    other = create_handle({**handle_body, "handle": "mh_other"})
    assert handle == create_handle(handle_body) != other
    assert len({handle, create_handle(handle_body), other}) == 2
    assert pickle.loads(pickle.dumps(handle)) == copy.deepcopy(handle) == handle
    assert handle != handle.id
    assert isinstance(handle, MemoryHandle)
