"""Entry of scripts/rolling."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.trials.rolling import JOBS, run_rolling
from scripts.trials.upgrade import later_version, run_upgrade
from tests.support.cluster import Cluster


def note(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Rolling restarts by SIGTERM under six jobs a second.")
    parser.add_argument("--rounds", type=int, default=1, help="each restarts all three nodes")
    parser.add_argument("--run", type=float, default=3.0, help="seconds that a run takes")
    parser.add_argument("--grace", type=float, default=10.0, help="--grace of the nodes, in seconds")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two nodes")
    parser.add_argument("--upgrade", action="store_true", help="to a later version, back, and to it for good")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="raftsched-rolling-") as directory:
        flags = ("--grace", f"{args.grace:g}s")
        with Cluster(3, flags=flags, directory=Path(directory), pythonpath=JOBS) as cluster:
            if args.upgrade:
                found = run_upgrade(cluster, later_version(Path(directory) / "later"), args.run, note)
            else:
                found = run_rolling(cluster, args.rounds, args.run, args.pause, note)
    print(found.summary())
    for line in found.wrong:
        print(f"WRONG: {line}")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
