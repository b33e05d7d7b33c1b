"""An export as a file: line after line, each with its number, or with what is wrong with it.

Owns the order of the lines: header, memories, links, then all else, end. Reads nothing twice into
memory.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, Protocol

from inferscale.protocol import transfer as wire
from inferscale_sidecar.core import Thread
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.service.transfer_blocks import to_block
from inferscale_sidecar.service.transfer_documents import to_document
from inferscale_sidecar.service.transfer_lines import read_line, to_link, to_moved
from inferscale_sidecar.service.transfer_threads import to_message, to_thread
from inferscale_sidecar.store.transfer_port import (
    Link,
    MovedBlock,
    MovedDocument,
    MovedMemory,
    MovedMessage,
)

MAX_LINE_BYTES = 64 * 2**20


Imported = MovedMemory | Link | MovedBlock | Thread | MovedMessage | MovedDocument

_READERS: Mapping[type, Callable[[Any], Imported]] = {
    wire.MemoryLine: to_moved,
    wire.LinkLine: to_link,
    wire.BlockLine: to_block,
    wire.ThreadLine: to_thread,
    wire.MessageLine: to_message,
    wire.DocumentLine: to_document,
}
_COUNTED: Mapping[str, type] = {
    "memories": wire.MemoryLine,
    "links": wire.LinkLine,
    "blocks": wire.BlockLine,
    "threads": wire.ThreadLine,
    "messages": wire.MessageLine,
    "documents": wire.DocumentLine,
}


class Entry(NamedTuple):
    """One thing to import, or why it cannot be. `place` is for people, e.g. `line 12`."""

    place: str
    what: Imported | InvalidInput


class Source(Protocol):
    """What can be imported: all memories before any link. It is read twice.

    `tenant_id` is where the memories come from, "" for another product; `embedder` what their
    vectors come from.
    """

    tenant_id: str
    embedder: str | None

    def __iter__(self) -> Iterator[Entry]: ...


class ExportFile:
    """A file that an export wrote. See `Source`.

    Args:
        file: can be rewound; closed by the caller.

    Raises:
        InvalidInput: it does not begin like an export of this release or an older one.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        file.seek(0)
        header = self._header(file.readline(MAX_LINE_BYTES))
        self.tenant_id = header.tenant
        self.embedder = header.embedder

    def __iter__(self) -> Iterator[Entry]:
        self._file.seek(0)
        counts = Counter[type]()
        number, ended, complete = 0, False, True
        while line := self._file.readline(MAX_LINE_BYTES):
            number += 1
            if number == 1 or not line.strip():
                continue
            place = f"line {number}"
            try:
                read = _whole(line)
                _check_order(read, ended, links=counts[wire.LinkLine])
                if isinstance(read, wire.End):
                    ended = True
                    _check_counts(read, counts if complete else None)
                    continue
                counts[type(read)] += 1
                yield Entry(place, _READERS[type(read)](read))
            except InvalidInput as error:
                complete = False
                yield Entry(place, error)
        if not ended:
            yield Entry(f"after line {number}", InvalidInput("the end is missing: it was cut off"))

    @staticmethod
    def _header(line: bytes) -> wire.Header:
        try:
            header = read_line(line)
        except InvalidInput as error:
            raise InvalidInput(
                f"this is no export, its first line is no header: {error}"
            ) from error
        if not isinstance(header, wire.Header):
            raise InvalidInput(f"this is no export; its first line is a {header.type}")
        if header.version > wire.VERSION:
            raise InvalidInput(
                f"this export has format version {header.version}, this release reads up to "
                f"{wire.VERSION}; import it with a newer release"
            )
        return header


def _whole(line: bytes) -> wire.Content | wire.End:
    if not line.endswith(b"\n") and len(line) >= MAX_LINE_BYTES:
        raise InvalidInput(f"the line is longer than {MAX_LINE_BYTES} bytes")
    read = read_line(line)
    if isinstance(read, wire.Header):
        raise InvalidInput("a header in the middle: import one export at a time")
    return read


def _check_order(read: wire.Line, ended: bool, *, links: int) -> None:
    if ended:
        raise InvalidInput("there is more after the end")
    if links and isinstance(read, wire.MemoryLine):
        raise InvalidInput("a memory after the links: all memories come first")


def _check_counts(end: wire.End, counts: Mapping[type, int] | None) -> None:
    """`counts` of the lines by kind; None if some were not valid, for they were not counted."""
    if counts is None:
        return
    said = {name: getattr(end, name) for name in _COUNTED}
    found = {name: counts[kind] for name, kind in _COUNTED.items()}
    if said != found:
        wrong = [
            f"{said[name]} {name}, but there are {found[name]}"
            for name in _COUNTED
            if said[name] != found[name]
        ]
        raise InvalidInput(f"the end counts {', '.join(wrong)}: lines are missing")
