"""Whose memory: ADK names an app and a user."""


def scope_of(app_name: str, user_id: str, *, across_apps: bool) -> dict[str, str]:
    """The scope of a user in an app, or in all of them."""
    return {"user_id": user_id} if across_apps else {"user_id": user_id, "app_id": app_name}
