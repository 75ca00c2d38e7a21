"""The harness is a folder of scripts beside the package, not an installed one."""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "jepsen-like"
if str(FOLDER) not in sys.path:
    sys.path.insert(0, str(FOLDER))
