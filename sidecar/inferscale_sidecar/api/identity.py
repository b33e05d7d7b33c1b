"""Whose memory a request is about, when its headers say so.

For clients whose bodies have no room for it: MCP, and OpenAI clients without `extra_body`. The
headers name a scope inside the tenant that the API key decides; they never choose the tenant.
"""

from collections.abc import Mapping

from pydantic import ValidationError
from starlette.datastructures import Headers

from inferscale.protocol.memory import SCOPE_IDS, Scope
from inferscale_sidecar.errors import InvalidInput

ID_HEADERS: Mapping[str, str] = {
    name: f"x-inferscale-{name.replace('_', '-')}" for name in SCOPE_IDS
}


def named_ids(headers: Headers) -> dict[str, str]:
    """The ids that the headers name; empty if none do.

    Raises:
        InvalidInput: an id that is not one, or a header given twice with different ids.
    """
    found: dict[str, str] = {}
    for name, header in ID_HEADERS.items():
        values = {_decoded(value) for value in headers.getlist(header)}
        if len(values) > 1:
            raise InvalidInput(
                f"the header {header} is there {len(values)} times with different values; send one",
                param=header,
            )
        if values:
            found[name] = _checked(name, values.pop(), header)
    return found


def _decoded(value: str) -> str:
    """Header values come as Latin-1; most clients send UTF-8 there."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeError:
        return value


def _checked(name: str, value: str, header: str) -> str:
    try:
        Scope.model_validate({name: value})
    except ValidationError as error:
        reason = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise InvalidInput(f"{header}: {reason}", param=header) from error
    return value
