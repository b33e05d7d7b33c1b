"""Which bank this is: two engines of one model have one fingerprint, but each its own items.

Owns the file `id` in a bank's folder. Invariant: it is made once, whichever process comes first,
and goes with the folder; who copies a bank leaves it behind.
"""

import os
import secrets
from pathlib import Path


def bank_id(folder: Path) -> str:
    """The bank's random name, 16 hex digits.

    Args:
        folder: holds the banks of all ranks of one engine.
    """
    path = folder / "id"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        mine = folder / f"id.{secrets.token_hex(8)}"
        mine.write_text(secrets.token_hex(8))
        try:
            os.link(mine, path)  # whole or not at all, and only for the first
        except FileExistsError:
            pass
        finally:
            mine.unlink()
    return path.read_text().strip()
