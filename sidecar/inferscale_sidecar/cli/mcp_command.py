"""The command `mcp` and its flags."""

from typing import Annotated

import typer

from inferscale_sidecar.cli.flags import ApiKey, ConfigFile, Url, load_settings

UserId = Annotated[str | None, typer.Option(envvar="INFERSCALE_USER_ID", help="Whose memory.")]
AgentId = Annotated[str | None, typer.Option(envvar="INFERSCALE_AGENT_ID", help="Whose memory.")]
RunId = Annotated[str | None, typer.Option(envvar="INFERSCALE_RUN_ID", help="Whose memory.")]
AppId = Annotated[str | None, typer.Option(envvar="INFERSCALE_APP_ID", help="Whose memory.")]


def add_mcp_command(app: typer.Typer) -> None:
    """Adds it to the program."""

    @app.command()
    def mcp(
        user_id: UserId = None,
        agent_id: AgentId = None,
        run_id: RunId = None,
        app_id: AppId = None,
        url: Url = None,
        api_key: ApiKey = None,
        config: ConfigFile = None,
    ) -> None:
        """Serve one user's memory over MCP on stdin and stdout, from a running sidecar.

        Stdout belongs to the protocol. The sidecar itself serves many users at /mcp.
        """
        from inferscale_sidecar.cli.mcp import serve_mcp

        ids = {"user_id": user_id, "agent_id": agent_id, "run_id": run_id, "app_id": app_id}
        scope = {name: value for name, value in ids.items() if value}
        serve_mcp(load_settings(config, None), url, api_key, scope)
