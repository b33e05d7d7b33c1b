"""Exports and imports between a sidecar and a file, piece by piece: neither is ever in memory.

Owns the requests, the files, and what makes an export whole. No I/O over the network.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

import httpx
from pydantic import ValidationError

from inferscale._dialect import Scope, scope_ids
from inferscale._operation import Operation, reads
from inferscale._results import MappingModel
from inferscale.errors import InvalidArgumentError, StreamError
from inferscale.protocol import transfer as wire

File = str | os.PathLike[str] | BinaryIO
"""A path, or a file that is open for bytes."""

IMPORT_TIMEOUT_S = 3_600.0
PIECE_BYTES = 2**18
_END_BYTES = 4_096
_END = b'{"type":"end"'


class ExportResult(MappingModel):
    """What an export holds: how many of each kind, and its size."""

    memories: int = 0
    links: int = 0
    blocks: int = 0
    threads: int = 0
    messages: int = 0
    documents: int = 0
    num_bytes: int = 0


class ImportResult(MappingModel, wire.ImportResponse):
    """What an import did, by kind; after a dry run, what it would do."""


class Sink:
    """Takes the pieces of an export. `result` is there at its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = 0
        self._tail = b""

    def take(self, piece: bytes) -> None:
        """Write a piece."""
        self._file.write(piece)
        self._size += len(piece)
        self._tail = (self._tail + piece[-_END_BYTES:])[-_END_BYTES:]

    def result(self) -> ExportResult:
        """What the last line says. Raises StreamError if the export is not whole."""
        last = self._tail.rstrip(b"\n").rpartition(b"\n")[2]
        try:
            if not (self._tail.endswith(b"\n") and last.startswith(_END)):
                raise ValueError(last[:20])
            end = wire.LINE.validate_json(last)
        except (ValidationError, ValueError) as error:
            raise StreamError(
                f"the export ended after {self._size} bytes without its last line.",
                remedy="Export again; what came is not whole.",
            ) from error
        counts = end.model_dump(exclude={"type"})
        return ExportResult(**counts, num_bytes=self._size)


@contextmanager
def sink_to(target: File) -> Iterator[Sink]:
    """Where an export goes. A path gets all of it or stays as it was, readable by its owner only.

    Raises:
        OSError: the file cannot be written.
    """
    if not isinstance(target, str | os.PathLike):
        yield Sink(target)
        return
    path = Path(target).absolute()
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
        try:
            yield Sink(file)  # type: ignore[arg-type]  # a wrapper that behaves like a BinaryIO
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def export(scope: Scope, *, vectors: bool) -> Operation[httpx.Response]:
    ids = scope_ids(scope) if any(value is not None for value in scope.values()) else {}
    return Operation(
        "GET",
        "/v1/export",
        lambda response: response,
        params={**ids, **({"vectors": "true"} if vectors else {})},
        headers={"Accept": wire.MEDIA_TYPE},
        stream=True,
    )


def import_from(
    source: File, flags: Mapping[str, bool], *, timeout_s: float | None
) -> Operation[ImportResult]:
    return Operation(
        "POST",
        "/v1/import",
        reads(ImportResult),
        params={name: "true" for name, value in flags.items() if value},
        pieces=_pieces_of(source),
        headers={"Content-Type": wire.MEDIA_TYPE},
        timeout_s=timeout_s or IMPORT_TIMEOUT_S,
    )


def _pieces_of(source: File) -> Callable[[], Iterator[bytes]]:
    """Gives the contents from the start, each time it is called."""
    if isinstance(source, str | os.PathLike):
        Path(source).open("rb").close()  # what cannot be read is said before anything is sent
        return lambda: _read_path(source)
    if not source.seekable():
        raise InvalidArgumentError(
            "the export cannot be read twice, which a retry needs; pass a path or a seekable file."
        )
    start = source.tell()

    def read() -> Iterator[bytes]:
        source.seek(start)
        yield from _read(source)

    return read


def _read_path(path: str | os.PathLike[str]) -> Iterator[bytes]:
    with Path(path).open("rb") as file:
        yield from _read(file)


def _read(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(PIECE_BYTES):
        yield piece
