"""A trial of what is stopped and not killed: SIGSTOP for the node process, its supervisor, its sentinel, its keepers.

In each round jobs of all kinds run on three real nodes, also stubborn ones that ignore TERM and leave for a session of
their own. Then processes of both followers are stopped for a minute, go on, and everything comes to its end. All runs
of a stopped node have to be dead before the cluster starts their next attempt: the checker holds what the jobs wrote,
by the boot clock, against what the cluster says. Its table comes on stdout, each violation on stderr.

Exit code 0: nothing was found. 1: a violation, or a trial that showed nothing.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.endurance import note, table
from scripts.trials.endurance import JOBS
from scripts.trials.freeze import ROUNDS, run_freeze
from tests.support.cluster import Cluster


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/freeze", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long processes are stopped (60)")
    parser.add_argument("--jobs", type=int, default=24, help="how many run in each round (24)")
    parser.add_argument("--rounds", type=int, choices=range(1, len(ROUNDS) + 1), default=len(ROUNDS))
    parser.add_argument("--seed", type=int, default=None, help="of the order and the runs (a new one each time)")
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    note(f"seed {seed}; starting 3 nodes ...")
    with tempfile.TemporaryDirectory(prefix="raftsched-freeze-") as temporary:
        directory = Path(temporary)
        try:
            with Cluster(3, flags=["--slots", str(given.jobs)], directory=directory, pythonpath=JOBS) as cluster:
                verdict = run_freeze(
                    cluster, directory, random.Random(seed), given.jobs, given.seconds, given.rounds, note
                )
        except (RuntimeError, AssertionError, OSError) as error:
            note(f"scripts/freeze: {error} (seed {seed})")
            return 1
    for rule, found in verdict.violations.items():
        for what in found:
            note(f"{rule}: VIOLATED\n    {what}")
    lost = verdict.counts["attempts lost"]
    if not lost:
        note("the trial showed nothing: no attempt was lost")
    print(", ".join(f"{what}: {number}" for what, number in sorted(verdict.counts.items())))
    print(table(verdict))
    held = verdict.held and lost > 0
    print("HELD" if held else "FAILED", f"(seed {seed})", flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
