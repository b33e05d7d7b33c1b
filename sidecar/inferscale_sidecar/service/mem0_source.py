"""Mem0's memories as something to import: payloads and history rows become memories of ours.

Owns the translation. Mem0's raw messages, entities and deleted memories are left behind.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, date, datetime
from typing import Any

from pydantic import ValidationError

from inferscale.protocol import transfer as wire
from inferscale.protocol.memory import Scope
from inferscale.protocol.moments import end_of_day
from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.foreign.mem0_history import Mem0History, Mem0Reader
from inferscale_sidecar.foreign.points import Point, Points
from inferscale_sidecar.service.transfer_file import Entry
from inferscale_sidecar.service.transfer_lines import reasons, to_moved

_IDS = (*SCOPE_IDS, "role", "actor_id")
_END = "expiration_date"
_OWN = frozenset({*_IDS, "data", "hash", "created_at", "updated_at", "text_lemmatized"})


class Mem0Source:
    """A Mem0 collection with its history. See `Source`.

    Args:
        points: the vector store.
        history: its history database; None for memories without a past.
        now: when memories were made that do not tell.
    """

    tenant_id = ""
    embedder: str | None = None

    def __init__(
        self, points: Points, history: Mem0History | None = None, *, now: datetime | None = None
    ) -> None:
        self._points = points
        self._history = history
        self._now = now or datetime.now(UTC)

    def __iter__(self) -> Iterator[Entry]:
        with ExitStack() as stack:
            past = stack.enter_context(self._history.reader()) if self._history else None
            for point in sorted(self._points, key=lambda point: self._made_at(point)):
                yield Entry(f"memory {point.id}", self._read(point, past))

    def _made_at(self, point: Point) -> tuple[datetime, str]:
        return self._time(point.payload.get("created_at")) or self._now, point.id

    def _read(self, point: Point, past: Mem0Reader | None) -> Any:
        payload = point.payload
        made = self._time(payload.get("created_at")) or self._now
        changed = self._time(payload.get("updated_at")) or made
        text = payload.get("data")
        versions = self._versions(point, past, text, made, changed)
        end = _end(payload)
        ids = {name: payload.get(name) for name in _IDS}
        own = _OWN if end is None else _OWN | {_END}
        if not _is_id(ids["app_id"]):  # only metadata there, which holds anything
            ids["app_id"], own = None, own - {"app_id"}
        line = {
            "id": point.id,
            "memory": text,
            "version": len(versions),
            "metadata": {k: v for k, v in payload.items() if k not in own} or None,
            "expires_at": end,
            "created_at": made,
            "updated_at": changed,
            "versions": versions,
            **ids,
        }
        try:
            return to_moved(wire.MemoryLine.model_validate(line))
        except ValidationError as error:
            return InvalidInput(reasons(error, skip=0))
        except InvalidInput as error:
            return error

    def _versions(
        self, point: Point, past: Mem0Reader | None, text: Any, made: datetime, changed: datetime
    ) -> list[dict[str, Any]]:
        """Each text that it had, from when on; what changes no text makes no version."""
        texts: list[tuple[Any, datetime]] = []
        for row in past.of(point.id) if past else ():
            if not texts and row.event == "UPDATE":
                texts.append((row.old, made))
            if row.new and (not texts or texts[-1][0] != row.new):
                texts.append((row.new, self._time(row.at) or changed))
        if not texts or texts[-1][0] != text:
            texts.append((text, changed if texts else made))
        return [
            {
                "version": number,
                "event": "ADD" if number == 1 else "UPDATE",
                "memory": each,
                "created_at": at,
            }
            for number, (each, at) in enumerate(texts, 1)
        ]

    @staticmethod
    def _time(value: Any) -> datetime | None:
        """A time as Mem0 writes it; one without a zone is UTC."""
        try:
            time = datetime.fromisoformat(value)
        except (TypeError, ValueError):
            return None
        return time if time.tzinfo else time.replace(tzinfo=UTC)


def _is_id(value: Any) -> bool:
    try:
        Scope(app_id=value)
    except ValidationError:
        return False
    return value is not None


def _end(payload: Mapping[str, Any]) -> datetime | None:
    """When Mem0 would stop showing it; what is no date there is metadata."""
    try:
        return end_of_day(date.fromisoformat(payload[_END]))
    except (KeyError, TypeError, ValueError):
        return None
