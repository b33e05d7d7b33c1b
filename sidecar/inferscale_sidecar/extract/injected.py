"""Memory that was put into a prompt must not come back as something that a person said."""

import re

from inferscale_sidecar.compose.frame import FOOTER, HEADING
from inferscale_sidecar.compose.pinned import PINNED_FOOTER, PINNED_HEADING

_BLOCK = re.compile(
    "|".join(
        f"{re.escape(heading.strip())}.*?(?:{re.escape(footer)}|\\Z)"
        for heading, footer in ((PINNED_HEADING, PINNED_FOOTER), (HEADING, FOOTER))
    ),
    re.DOTALL | re.IGNORECASE,
)


def without_injected(text: str) -> str:
    """The text without memory blocks, also those whose end was cut off; may be empty."""
    return _BLOCK.sub(" ", text).strip()
