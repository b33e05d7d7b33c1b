"""`tenants limits`: what a tenant may use and what it uses, straight in the database."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict

from inferscale_sidecar.cli.keys import tenant_named
from inferscale_sidecar.cli.output import OK, Output
from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import InvalidInput

_COLUMNS = ("limit", "value", "from", "used")


def show_limits(
    config: Config, output: Output, tenant: str, sets: Iterable[str], resets: Iterable[str]
) -> int:
    """Change limits if asked to, then print all.

    Args:
        tenant: name or id.
        sets: `NAME=NUMBER`.
        resets: names to leave to the settings again.
    """
    changes = _changes(sets, resets)

    async def work() -> list[dict[str, object]]:
        async with tenant_named(config, tenant) as (tenants, tenant_id):
            if changes:
                await tenants.set_limits(tenant_id, changes)
            limits, own, usage = await tenants.limits(tenant_id)
        used = asdict(usage)
        return [
            {
                "limit": name,
                "value": value or None,
                "from": "tenant" if name in own else "settings",
                "used": used.get(name),
            }
            for name, value in asdict(limits).items()
        ]

    rows = asyncio.run(work())
    output.table("limits", rows if output.as_json else [_shown(row) for row in rows], _COLUMNS)
    return OK


def _changes(sets: Iterable[str], resets: Iterable[str]) -> dict[str, int | None]:
    changes: dict[str, int | None] = dict.fromkeys(resets)
    for item in sets:
        name, _, number = item.partition("=")
        if not (number.isascii() and number.isdigit()):
            raise InvalidInput(
                f"--limit {item!r} is not NAME=NUMBER; for example --limit memories=10000"
            )
        changes[name] = int(number)
    return changes


def _shown(row: dict[str, object]) -> dict[str, object]:
    return row | {"value": row["value"] or "no limit"}
