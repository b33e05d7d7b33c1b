"""How a served list may open, beside the shipped way. Owns the lines before the first item."""

from inferscale_sidecar.compose.frame import HEADING, OPENING, MemoryFrame


class BareFrame(MemoryFrame):
    """Without the line that opens lists."""

    heading = HEADING


class ThreeLines(MemoryFrame):
    """With three lines that are always the same, where one is shipped."""

    heading = (
        f"{HEADING}- Each line of this list is one fact.\n"
        f"- Older and newer facts stand side by side.\n{OPENING}"
    )


FRAMES: dict[str, type[MemoryFrame]] = {"": MemoryFrame, "bare": BareFrame, "three": ThreeLines}
"""By the name that an arm gives; empty: as shipped."""
