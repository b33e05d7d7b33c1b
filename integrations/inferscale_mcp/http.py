"""The MCP server over streamable HTTP, as an ASGI application for somebody else's server.

Owns the transport. Does not own authentication: whoever mounts it says for each request who calls,
and gives a client with that caller's rights. Invariant: no request sees another one's caller, for
there are no sessions: every request stands for itself.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from inferscale import AsyncMemory
from inferscale_mcp.server import Caller, serve_callers

_CALLER = "inferscale.caller"
_BASE_URL = "http://sidecar.internal"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

Message = MutableMapping[str, Any]


class HttpServer:
    """The application. Serves requests only while `running()`.

    Args:
        is_loopback: the host listens on this machine only, so that any other `Host` or `Origin` is
            a page that has been pointed at it (DNS rebinding).
    """

    def __init__(self, *, is_loopback: bool) -> None:
        self._manager = StreamableHTTPSessionManager(
            serve_callers(_caller_of)._lowlevel_server,
            json_response=True,
            stateless=True,
            security_settings=_security(is_loopback),
        )

    def running(self) -> AbstractAsyncContextManager[None]:
        """Holds the tasks of running requests; to be entered once."""
        manager: AbstractAsyncContextManager[None] = self._manager.run()
        return manager

    async def serve(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
        *,
        http_client: Any,
        ids: Mapping[str, str],
    ) -> None:
        """Answers one request.

        Args:
            scope, receive, send: of ASGI.
            http_client: an `httpx.AsyncClient` that reaches the sidecar with the caller's rights.
            ids: `user_id`, `agent_id`, `run_id`, `app_id`, as far as the request names them.
        """
        caller = Caller(AsyncMemory(_BASE_URL, http_client=http_client), ids)
        await self._manager.handle_request({**scope, _CALLER: caller}, receive, send)


def _caller_of(context: Any) -> Caller:
    caller: Caller = context.request_context.request.scope[_CALLER]
    if not caller.scope:
        raise ToolError(
            "Whose memory? The request names nobody; set the header X-InferScale-User-Id "
            "(or -Agent-Id, -Run-Id, -App-Id) in the client's configuration of this server."
        )
    return caller


def _security(is_loopback: bool) -> TransportSecuritySettings:
    if not is_loopback:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return TransportSecuritySettings(
        allowed_hosts=[f"{host}{port}" for host in _LOOPBACK for port in ("", ":*")],
        allowed_origins=[f"http://{host}{port}" for host in _LOOPBACK for port in ("", ":*")],
    )
