"""Whose memory: how ids combine, and that whatever names them names the same."""

from dataclasses import fields
from itertools import product

import pytest

from inferscale.protocol import memory as wire
from inferscale.protocol import threads as thread_wire
from inferscale.protocol import transfer as transfer_wire
from inferscale_sidecar.api.identity import ID_HEADERS
from inferscale_sidecar.api.routes.threads import ThreadQuery
from inferscale_sidecar.core import Scope
from inferscale_sidecar.store.block_tables import block_scopes
from inferscale_sidecar.store.schema import extractions, handles, memories, purges
from inferscale_sidecar.store.thread_tables import threads

ALL = [Scope(*ids) for ids in product((None, "x"), repeat=len(wire.SCOPE_IDS))]


def test_the_ids_are_the_same_everywhere() -> None:
    ids = wire.SCOPE_IDS
    assert tuple(field.name for field in fields(Scope)) == ids
    assert tuple(wire.Scope.model_fields) == tuple(ID_HEADERS) == ids
    for shape in (wire.Memory, wire.HandleResponse, transfer_wire.MemoryLine):
        assert set(ids) <= set(shape.model_fields)
    for table in (memories, handles, extractions, block_scopes, purges):
        assert set(ids) <= set(table.c.keys())
    owners = set(ids) - {"run_id"}  # a thread is a run
    lines = (transfer_wire.ThreadLine, transfer_wire.MessageLine)
    for shape in (thread_wire.Thread, thread_wire.CreateThreadRequest, ThreadQuery, *lines):
        assert set(shape.model_fields) & set(ids) == owners
    assert set(threads.c.keys()) & set(ids) == owners


@pytest.mark.parametrize("scope", ALL, ids=str)
def test_a_scope_covers_those_that_have_its_ids_and_is_part_of_them(scope: Scope) -> None:
    covered = [other for other in ALL if scope.covers(other)]
    assert covered == [other for other in ALL if scope.given.items() <= other.given.items()]
    if scope.given:
        parts = [part for part in ALL if part.given and part.covers(scope)]
        assert sorted(map(str, scope.parts)) == sorted(map(str, parts))
        assert Scope.of(scope) == Scope(**scope.ids) == scope


def test_the_list_of_a_scope_is_that_of_its_first_id() -> None:
    assert Scope("a", "b", "c", "d").owner == "user:a"
    assert Scope(None, "b", "c", "d").owner == "agent:b"
    assert Scope(run_id="c", app_id="d").owner == "run:c"
    assert Scope(app_id="d").owner == "app:d"
    with pytest.raises(ValueError, match="at least one of user_id, agent_id, run_id, app_id"):
        Scope().owner  # noqa: B018
