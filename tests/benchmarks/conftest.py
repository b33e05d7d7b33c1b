"""`benchmarks` is not installed: it is run from the repository's root, and so are its tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
