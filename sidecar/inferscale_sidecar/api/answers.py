"""Results of writes and histories as clients see them. Owns no routes."""

from collections.abc import Sequence

from inferscale.protocol import memory as wire
from inferscale_sidecar.service.memory_facts import Additions
from inferscale_sidecar.store.records import Added, VersionEvent


def additions_of(additions: Additions) -> wire.AddResponse:
    """What an addition did, with how its extraction stands."""
    results = [added_of(each) for each in additions.results]
    job = additions.extraction
    if job is None:
        return wire.AddResponse(results=results)
    error = None
    if job.error is not None:
        error = wire.ExtractionError(code=job.error_code or "extraction_failed", message=job.error)
    extraction = wire.Extraction(
        id=job.id,
        state=job.state,
        facts=job.facts,
        dropped=job.dropped,
        error=error,
        turns=[turn.id for turn in job.turns if turn],
        created_at=job.created_at,
        updated_at=job.updated_at,
    )
    return wire.AddResponse(results=results, extraction=extraction)


def added_of(added: Added) -> wire.AddedMemory:
    """What became of one message or fact."""
    memory = added.memory
    return wire.AddedMemory(
        id=memory.id,
        memory=memory.text,
        event=added.event,
        role=memory.role,
        actor_id=memory.actor_id,
        kv_state=memory.kv_state,
        status=added.status,
        error=added.error,
        sources=list(added.sources),
        supersedes=list(added.supersedes),
    )


def history_of(events: Sequence[VersionEvent]) -> list[wire.HistoryEntry]:
    """Each event beside the text before it."""
    entries, old = [], None
    for event in events:
        entries.append(
            wire.HistoryEntry(
                memory_id=event.memory_id,
                version=event.version,
                event=event.event,
                old_memory=old,
                new_memory=event.text,
                created_at=event.created_at,
            )
        )
        old = event.text
    return entries
