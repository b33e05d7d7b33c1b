"""Memory that was put into a prompt must not come back as something that a person said."""

import re

from inferscale_sidecar.compose.frame import FOOTER, HEADING

_BLOCK = re.compile(
    re.escape(HEADING.strip()) + r".*?(?:" + re.escape(FOOTER) + r"|\Z)", re.DOTALL | re.IGNORECASE
)


def without_injected(text: str) -> str:
    """The text without memory blocks, also those whose end was cut off; may be empty."""
    return _BLOCK.sub(" ", text).strip()
