"""Writes captured items to the bank behind the engine's back: no step waits for the disk.

Owns the queue between capture and bank, its bound, and the note that tells everyone what is on its
way. Invariants: a key is in that note from before the step ends until after the bank holds it, so
whoever looks at the note first and at the bank second never takes a waiting item for a lost one;
what does not fit into the queue is dropped at once, and is built again later.
"""

import atexit
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from inferscale_kernels.threads import free_from_pinning
from inferscale_vllm.bank import Bank, BankFull, ItemHeader
from inferscale_vllm.capture import Captured
from inferscale_vllm.state import EngineState

logger = logging.getLogger(__name__)

QUEUE_BYTES = 256 * 2**20
"""Most KV that may wait: some 10,000 tokens of a model of 135M, some 2,000 of one of 8B."""
FLUSH_S = 15.0
Pack = Callable[[Captured], tuple[ItemHeader, memoryview]]


def note_name(rank: int) -> str:
    """The note of a rank's writer in the engine's state."""
    return f"writer:{rank}"


def pending_keys(states: Sequence[EngineState], num_ranks: int) -> set[str]:
    """Keys that are captured and not yet in every rank's bank. Look here before the bank."""
    notes = (s.get_note(note_name(rank), {}) for s in states for rank in range(num_ranks))
    return {key for note in notes for key in note.get("pending", ())}


@dataclass
class WriterCounts:
    """Items since the engine's start.

    Attributes:
        written: committed to the bank.
        dropped: not taken because the queue was full.
        refused: taken, but the bank had no room that may be made.
    """

    written: int = 0
    dropped: int = 0
    refused: int = 0


class Writer:
    """One rank's writer thread; it starts with the first item.

    Args:
        bank: where to.
        state: where it is told what is on its way.
        rank: of this worker.
        pack: makes an item's record and bytes; called in the thread.
        queue_bytes: most KV that may wait.
    """

    def __init__(
        self,
        bank: Bank,
        state: EngineState,
        pack: Pack,
        *,
        rank: int = 0,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self._bank, self._state, self._pack = bank, state, pack
        self._name, self._queue_bytes = note_name(rank), queue_bytes
        self._waiting: dict[str, Captured] = {}
        self._writing: dict[str, Captured] = {}
        self._counts = WriterCounts()
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._tell()  # an engine that died under the same name may have left items on their way

    def submit(self, items: Sequence[Captured]) -> None:
        """Takes items, or drops those for which there is no room. Never waits for the disk."""
        with self._changed:
            if self._is_closing:
                return
            held = sum(_bytes(i) for i in (*self._waiting.values(), *self._writing.values()))
            for item in items:
                held += _bytes(item)
                if held > self._queue_bytes and (self._waiting or self._writing):
                    held -= _bytes(item)
                    self._counts.dropped += 1
                else:
                    self._waiting[item.key] = item
            self._publish()
            self._start()
            self._changed.notify_all()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="inferscale-bank", daemon=True)
            self._thread.start()
            atexit.register(self.close)

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Waits until all that was taken is in the bank, or given up; whether it is."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting and not self._writing, timeout_s
            )

    def close(self) -> None:
        """Writes what waits, then ends the thread. May be called twice."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(FLUSH_S)
            atexit.unregister(self.close)

    def _publish(self) -> None:
        """Tells what is on its way. Called with the lock held."""
        pending = [*self._writing, *(k for k in self._waiting if k not in self._writing)]
        self._state.note(self._name, {"pending": pending, **asdict(self._counts)})

    def _run(self) -> None:
        free_from_pinning()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                if not self._waiting:
                    return
                self._writing, self._waiting = self._waiting, {}
            written = self._write(self._writing)
            with self._changed:
                self._counts.written += written
                self._writing = {}
                self._tell()
                self._changed.notify_all()

    def _tell(self) -> None:
        try:
            self._publish()
        except Exception:  # the items are in the bank all the same; the next note says so
            logger.exception("InferScale: the state of the writer could not be told")

    def _write(self, items: Mapping[str, Captured]) -> int:
        """Commits a batch, or if it has no room as a whole, what of it has; returns how many."""
        try:
            packed = {key: self._pack(item) for key, item in items.items() if item.is_whole()}
            if len(packed) == 1:
                return self._put_one(packed)
            return self._put(packed) if packed else 0
        except Exception:  # KV is derived data: losing it costs speed, not correctness
            logger.exception("captured items were not stored")
            return 0
        finally:
            self._purge()

    def _put(self, packed: dict[str, tuple[ItemHeader, memoryview]]) -> int:
        try:
            self._bank.put(packed)
        except BankFull:
            return sum(self._put_one({key: stored}) for key, stored in packed.items())
        return len(packed)

    def _put_one(self, packed: dict[str, tuple[ItemHeader, memoryview]]) -> int:
        try:
            self._bank.put(packed)
        except BankFull as error:
            self._counts.refused += 1
            if self._counts.refused & (self._counts.refused - 1) == 0:  # 1, 2, 4, 8 …
                logger.warning("%d items were not stored: %s", self._counts.refused, error)
            return 0
        return 1

    def _purge(self) -> None:
        try:
            self._bank.purge()
        except Exception:  # what is to go goes next time
            logger.exception("InferScale: retired items were not erased")


def _bytes(item: Captured) -> int:
    return item.kv.numel() * item.kv.element_size()


def summed(states: Sequence[EngineState], num_ranks: int) -> dict[str, Any]:
    """The writers' counts of all ranks, and how many items are on their way."""
    notes = [s.get_note(note_name(rank), {}) for s in states for rank in range(num_ranks)]
    counts = {name: sum(n.get(name, 0) for n in notes) for name in asdict(WriterCounts())}
    return {**counts, "pending": sum(len(n.get("pending", ())) for n in notes)}
