"""Domain errors. They say what happened, the value and the remedy, and know no HTTP.

SidecarError
├─ InvalidInput          the caller's fault: bad value (→ 400)
├─ Unauthenticated       no or unknown API key (→ 401)
├─ PermissionDenied      the key may not do this (→ 403)
├─ NotFound              unknown here, foreign or expired: told apart from nothing (→ 404)
├─ Conflict              the state forbids it (→ 409)
├─ TooLarge              over a documented limit (→ 413)
├─ RateLimited           too many requests in a while (→ 429, retry)
├─ QuotaExceeded         no room left for more (→ 429; waiting alone does not help)
├─ Unsupported           not offered by this set-up (→ 501)
├─ Unavailable           something that is needed is down (→ 503, retry)
│  ├─ EngineUnavailable  vLLM is down, starting or draining
│  └─ StoreUnavailable   the database is
└─ ConfigError           at start-up only
"""


class SidecarError(Exception):
    """Base. `code` is stable and documented; `param` names the offending field, if there is one."""

    code = "internal_error"

    def __init__(self, message: str, *, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.param = param


class InvalidInput(SidecarError):
    code = "invalid_request"


class Unauthenticated(SidecarError):
    code = "invalid_api_key"


class PermissionDenied(SidecarError):
    code = "permission_denied"


class NotFound(SidecarError):
    code = "not_found"


class Conflict(SidecarError):
    code = "conflict"


class TooLarge(SidecarError):
    code = "too_large"


class RateLimited(SidecarError):
    """`limit` is the name of the setting, `value` what it is, `window_s` None for what runs now."""

    code = "rate_limited"

    def __init__(
        self,
        message: str,
        *,
        limit: str = "",
        value: int = 0,
        window_s: int | None = None,
        retry_after_s: float = 1.0,
    ) -> None:
        super().__init__(message)
        self.limit = limit
        self.value = value
        self.window_s = window_s
        self.retry_after_s = retry_after_s


class QuotaExceeded(SidecarError):
    """`limit` is the name of the setting, `value` what it is."""

    code = "quota_exceeded"

    def __init__(self, message: str, *, limit: str = "", value: int = 0) -> None:
        super().__init__(message)
        self.limit = limit
        self.value = value


class Unsupported(SidecarError):
    code = "unsupported"


class Unavailable(SidecarError):
    """`retry_after_s` is when it is worth a try again."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EngineUnavailable(Unavailable):
    code = "engine_unavailable"


class StoreUnavailable(Unavailable):
    code = "store_unavailable"


class ConfigError(SidecarError):
    code = "config_error"
