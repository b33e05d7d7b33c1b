"""The SDK's records → Mem0's plain dicts, which `json.dumps` writes as they are.

Invariant: the keys are Mem0's, in its order; ids and labels that are not set are absent.
"""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from inferscale import SCOPE_IDS, AddedMemory, EntityRecord, HistoryRecord, MemoryRecord, SearchHit
from inferscale.compat.mem0._expiry import expiration_date

_PROMOTED = (*SCOPE_IDS, "actor_id", "role")
_EVENTS = {"NOOP": "NONE"}
_LAST = {"EXPIRE": "DELETE"}


def item(record: MemoryRecord, **score: float | None) -> dict[str, Any]:
    """A memory as `get` (`score=None`), `get_all` (no score) and `search` show it."""
    shown: dict[str, Any] = {
        "id": record.id,
        "memory": record.memory,
        "hash": record.hash,
        "metadata": record.metadata or None,
        **score,
        "created_at": record["created_at"],
        "updated_at": record["updated_at"],
    }
    for name in _PROMOTED:
        if record.get(name) is not None:
            shown[name] = record[name]
    if record.expires_at is not None:
        shown["expiration_date"] = expiration_date(record.expires_at)
    return shown


def entity(record: EntityRecord) -> dict[str, Any]:
    """Somebody with memories, as `users` shows them; `name` is what `delete_users` takes."""
    return {
        "id": record.id,
        "name": record.id,
        "type": record.type,
        "total_memories": record.memories,
        "created_at": record["created_at"],
        "updated_at": record["updated_at"],
    }


def found(hits: Iterable[SearchHit], threshold: float | None = None) -> dict[str, Any]:
    """Result of `search`, with `score_details` if the hits say what their scores are made of."""
    scored = [(hit, _reranked(hit) | _details(hit, threshold)) for hit in hits]
    return {"results": [item(hit, score=hit.score) | more for hit, more in scored]}


def _reranked(hit: SearchHit) -> dict[str, Any]:
    return {} if hit.rerank_score is None else {"rerank_score": hit.rerank_score}


def _details(hit: SearchHit, threshold: float | None) -> dict[str, Any]:
    details = hit.get("details")
    if details is None:
        return {}
    return {
        "score_details": {
            "semantic_score": details.similarity,
            "bm25_score": details.keyword,
            "entity_boost": 0.0,
            "raw_score": hit.score,
            "max_possible_score": 1.0,
            "final_score": hit.score,
            "threshold": threshold,
        }
    }


def added(results: Iterable[AddedMemory]) -> dict[str, Any]:
    """Result of `add`. A message stored verbatim says whose it is, as with `infer=False`."""
    return {"results": [_added(each) for each in results]}


def _added(each: AddedMemory) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": each.id, "memory": each.memory}
    shown["event"] = _EVENTS.get(each.event, each.event)
    if each.role is not None:
        shown |= {"actor_id": each.actor_id, "role": each.role}
    # Only if there is something to say: Mem0 has no words for a fact that is not extracted (yet).
    if each.get("status") in ("raw", "pending"):
        shown |= {"status": each["status"], "error": each.get("error")}
    return shown


def history(rows: Sequence[HistoryRecord], memory: MemoryRecord | None) -> list[dict[str, Any]]:
    """Rows of `history`, oldest first. `memory` is the current one, if it is still there."""
    return [
        {
            "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{row.memory_id}/{row.version}/{row.event}")),
            "memory_id": row.memory_id,
            "old_memory": row.old_memory,
            "new_memory": row.new_memory,
            "event": _LAST.get(row.event, row.event),
            "created_at": rows[0]["created_at"],
            "updated_at": row["created_at"],
            "is_deleted": row.is_deleted,
            "actor_id": memory.actor_id if memory else None,
            "role": memory.role if memory else None,
        }
        for row in rows
    ]
