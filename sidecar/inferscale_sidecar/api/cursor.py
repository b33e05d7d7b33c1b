"""Cursors of pages, as clients see them."""

import base64
import binascii

from inferscale_sidecar.errors import InvalidInput


def cursor_of(before: int | None) -> str | None:
    """Opaque to clients: they must not build one."""
    return None if before is None else _encode("v1", before)


def read_cursor(cursor: str | None) -> int | None:
    """What `cursor_of` was given. Raises InvalidInput for anything else."""
    return None if cursor is None else _decode(cursor, "v1", 1)[0]


def counting_cursor_of(before: int | None, total: int) -> str | None:
    """The same for a list that is counted once, on its first page."""
    return None if before is None else _encode("v2", before, total)


def read_counting_cursor(cursor: str | None) -> tuple[int | None, int | None]:
    """(before, total) that `counting_cursor_of` was given. Raises InvalidInput otherwise."""
    if cursor is None:
        return None, None
    before, total = _decode(cursor, "v2", 2)
    return before, total


def _encode(version: str, *numbers: int) -> str:
    text = ":".join([version, *map(str, numbers)])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(cursor: str, expected: str, count: int) -> list[int]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise _bad_cursor() from error
    version, *numbers = text.split(":")
    if version != expected or len(numbers) != count:
        raise _bad_cursor()
    if not all(number.isdigit() and len(number) <= 18 for number in numbers):
        raise _bad_cursor()
    return [int(number) for number in numbers]


def _bad_cursor() -> InvalidInput:
    return InvalidInput("cursor is not one that this server gave; start without it", param="cursor")
