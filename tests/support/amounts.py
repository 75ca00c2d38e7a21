"""How much a test tries: all of it, or a share where `./scripts/test quick` runs."""

from __future__ import annotations

import os

QUICK = os.environ.get("RAFTSCHED_TESTS") == "quick"


def examples(count: int) -> int:
    """The number of examples to try: `count`, or a twentieth of it (5 at the least) in a quick run."""
    return max(5, count // 20) if QUICK else count
