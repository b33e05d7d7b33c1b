"""A fact that an extraction found, as the store takes it. Pure."""

from typing import Any

from inferscale_sidecar.store.records import Draft, Extraction, FactDraft


def fact_draft(text: str, vector: Any, sources: tuple[int, ...], job: Extraction) -> FactDraft:
    """A fact keeps speaker and time of its messages, where they agree, and lives as long."""
    turns = [turn for at in sources if (turn := job.turns[at])]
    speakers = {(turn.role, turn.actor_id) for turn in turns}
    role, actor_id = speakers.pop() if len(speakers) == 1 else (None, None)
    said_at = max((turn.said_at for turn in turns if turn.said_at), default=None)
    ends = {turn.expires_at for turn in turns}
    expires_at = None if None in ends else max(filter(None, ends), default=None)
    return FactDraft(Draft(text, vector, role, actor_id, said_at, expires_at), sources)
