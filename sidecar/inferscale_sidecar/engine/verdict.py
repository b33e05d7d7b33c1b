"""Remembers across restarts that a model was found to answer worse with injected memory.

Owns one small JSON file per engine fingerprint and encode policy, in the cache folder: losing it
means that the check has to be run again, nothing else.
"""

import hashlib
import json
import logging
from pathlib import Path

log = logging.getLogger(__name__)


class VerdictFile:
    """Verdicts by (fingerprint, policy).

    Args:
        folder: where they lie; made when the first one is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, fingerprint: str, policy: str, *, passed: bool, detail: str) -> None:
        """Stores a verdict instead of the one before.

        Raises:
            OSError: the folder cannot be written to.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(fingerprint, policy)
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps({"passed": passed, "detail": detail}), encoding="utf-8")
        draft.replace(path)

    def objection(self, fingerprint: str, policy: str) -> str | None:
        """Why injection must stay off for this model, or None."""
        path = self._path(fingerprint, policy)
        try:
            verdict = json.loads(path.read_text(encoding="utf-8"))
            return None if verdict["passed"] else str(verdict["detail"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("the quality verdict %s cannot be read, and is ignored: %s", path, error)
            return None

    def _path(self, fingerprint: str, policy: str) -> Path:
        name = hashlib.sha256(f"{fingerprint}\n{policy}".encode()).hexdigest()[:32]
        return self._folder / f"{name}.json"
