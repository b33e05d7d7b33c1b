"""How close injected memory comes to the same memory as text, measured in the real engine.

`python -m benchmarks.quality --help` lists what can be measured; `docs/quality.md` has figures.
"""

TEACHER_FOLDER_ENV = "QUALITY_TEACHER_DIR"
"""Environment variable of the engine: where `teacher` leaves its files."""
