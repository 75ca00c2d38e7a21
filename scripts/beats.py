"""Celery's beats share a schedule in three nodes, and are killed with -9, as leaders are; each due time is then looked
for in the broker's queue. It needs Redis (scripts/redis.sh).

Exit code 0: none is missing, and those that were sent twice are named with the reason. 1: something else was found."""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.trials.beats_killed import run_beats
from tests.support.cluster import Cluster
from tests.support.redis_server import serving

SHOWN = 20


def note(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Celery beats are killed; each due time is sent.")
    parser.add_argument("--beats", type=int, default=3)
    parser.add_argument("--entries", type=int, default=50, help="each is due every second")
    parser.add_argument("--times", type=int, default=200, help="how often each is due")
    parser.add_argument("--pause", type=float, default=8.0, help="seconds between two kills, at most")
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = secrets.randbits(32) if args.seed is None else args.seed
    note(f"seed {seed}")
    with (
        tempfile.TemporaryDirectory(prefix="raftsched-beats-") as directory,
        serving() as broker,
        Cluster(3, directory=Path(directory)) as cluster,
    ):
        found = run_beats(
            cluster,
            broker,
            random.Random(seed),
            note,
            beats=args.beats,
            entries=args.entries,
            times=args.times,
            pause_s=(args.pause / 4, args.pause),
        )
    for line in found.twice:
        note(f"sent twice: {line}")
    for line in found.wrong[:SHOWN]:
        note(f"WRONG: {line}")
    if len(found.wrong) > SHOWN:
        note(f"and {len(found.wrong) - SHOWN} more")
    note(found.summary())
    note(f"{'FAILED' if found.wrong else 'HELD'} (seed {seed})")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
