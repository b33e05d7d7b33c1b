"""What every request is made of: strict fields, and whose memory it is about."""

from pydantic import BaseModel, ConfigDict

from inferscale.protocol.values import Id


class Wire(BaseModel):
    """Base of all request bodies: an unknown field is an error, never silently dropped."""

    model_config = ConfigDict(extra="forbid")


class Scope(Wire):
    """Whose memory. At least one id must be given, several are ANDed. Identity is not metadata."""

    user_id: Id | None = None
    agent_id: Id | None = None
    run_id: Id | None = None
    app_id: Id | None = None
