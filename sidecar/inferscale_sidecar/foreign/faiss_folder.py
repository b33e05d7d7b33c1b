"""A folder of mem0's FAISS store: payloads beside the index, as JSON, in older releases pickled."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from inferscale_sidecar.errors import ConfigError, InvalidInput
from inferscale_sidecar.foreign.points import Point
from inferscale_sidecar.foreign.unpickle import read_pickle


class FaissPoints:
    """Points of one collection; the index itself is not read.

    Raises:
        ConfigError: there is no such collection.
    """

    def __init__(self, folder: Path, collection: str) -> None:
        files = [folder / f"{collection}{end}" for end in (".json", ".pkl")]
        found = next((file for file in files if file.is_file()), None)
        if found is None:
            known = sorted(path.stem for path in folder.glob("*.faiss"))
            raise ConfigError(
                f"no collection {collection!r} in {folder}; there are: {', '.join(known) or 'none'}"
            )
        self._file = found

    def __iter__(self) -> Iterator[Point]:
        content = self._file.read_bytes()
        stored: Any
        try:
            if self._file.suffix == ".json":
                stored = json.loads(content)["docstore"]
            else:
                stored = read_pickle(content)[0]
            payloads = dict(stored)
        except InvalidInput as error:
            raise ConfigError(f"cannot read {self._file}: {error.message}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{self._file} is not what mem0's FAISS store writes") from error
        for memory_id, payload in payloads.items():
            yield Point(str(memory_id), payload if isinstance(payload, dict) else {})
