"""Haystack sends telemetry unless it is told not to before it is imported."""

import os

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
