"""Cursors of pages, as clients see them."""

import base64
import binascii

from inferscale_sidecar.errors import InvalidInput


def cursor_of(before: int | None) -> str | None:
    """Opaque to clients: they must not build one."""
    if before is None:
        return None
    return base64.urlsafe_b64encode(f"v1:{before}".encode()).decode().rstrip("=")


def read_cursor(cursor: str | None) -> int | None:
    """What `cursor_of` was given. Raises InvalidInput for anything else."""
    if cursor is None:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise _bad_cursor() from error
    version, _, number = text.partition(":")
    if version != "v1" or not number.isdigit() or len(number) > 18:
        raise _bad_cursor()
    return int(number)


def _bad_cursor() -> InvalidInput:
    return InvalidInput("cursor is not one that this server gave; start without it", param="cursor")
