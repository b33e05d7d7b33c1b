"""Results: the wire's fields, Mem0's manners."""

import pytest

import inferscale
from inferscale import _results
from inferscale.protocol import memory as wire


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (_results.AddResult, wire.AddResponse),
        (_results.SearchResult, wire.SearchResponse),
        (_results.ListResult, wire.ListResponse),
        (_results.MemoryRecord, wire.Memory),
        (_results.SearchHit, wire.ScoredMemory),
        (_results.DeleteResult, wire.DeleteResponse),
        (_results.BuildStatus, wire.BuildStatus),
    ],
)
def test_results_have_every_field_of_the_wire(ours, theirs):
    assert set(theirs.model_fields) <= set(ours.model_fields)


@pytest.fixture
def memory_record(record):
    return inferscale.MemoryRecord(**record)


def test_reads_as_a_dict(memory_record):
    assert memory_record["memory"] == memory_record.memory
    assert "metadata" in memory_record and "nope" not in memory_record
    assert memory_record.get("nope", 3) == 3 and memory_record.get("id") == "m1"
    assert list(memory_record) == memory_record.keys() == list(dict(memory_record))
    assert memory_record.items() == list(
        zip(memory_record.keys(), memory_record.values(), strict=True)
    )
    with pytest.raises(KeyError):
        memory_record["model_dump"]


def test_is_immutable_and_ignores_what_it_does_not_know(record):
    found = inferscale.MemoryRecord(**record, field_of_a_newer_sidecar=1)
    with pytest.raises(ValueError, match="frozen"):
        found.memory = "x"
