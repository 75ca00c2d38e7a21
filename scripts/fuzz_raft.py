"""Random and mutated frames to one node of three, whose peers are away: half before the handshake, half after it.

Prints one line of JSON. Exit code 1: the node stopped, its state changed, something was not counted, or it grew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.trials.frames import Found, fuzz


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--frames", type=int, default=1_000_000, help="how many (1,000,000)")
    words.add_argument("--seed", type=int, default=None, help="(another one each time)")
    words.add_argument("--tls-share", type=float, default=0.02, help="of connections that are sealed (0.02)")
    given = words.parse_args()
    seed = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    print(f"seed {seed}", file=sys.stderr)
    lines = Counting()
    logging.getLogger().addHandler(lines)
    logging.getLogger("raftsched").propagate = True
    with tempfile.TemporaryDirectory(prefix="raftsched-frames-") as directory:
        found: Found = asyncio.run(fuzz(Path(directory), random.Random(seed), given.frames, given.tls_share))
    print(json.dumps({"seed": seed, **found.figures, "log_lines": lines.count, "wrong": found.wrong}))
    return 1 if found.wrong else 0


class Counting(logging.Handler):
    """How many lines the node would have written."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


if __name__ == "__main__":
    sys.exit(main())
