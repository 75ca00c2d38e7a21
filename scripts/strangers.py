"""A trial of what strangers can do without a token: three real nodes under floods, then under a crowd.

Floods are at the leader, one kind after the other (--only chooses): compressed bombs, plain bodies, connections that
are dropped, long headers, requests in a row, requests that do not end. Meanwhile /livez is asked on a connection that
is kept and on new ones, and jobs are due each second. The crowd is thousands of idle connections and streams on every
node, while one is restarted. Figures come on stdout as JSON, one object a line.

`scripts/strangers stretches [--seed N] [--times 5] [OPERATION ...]` looks for something else, with one API in one
process: for requests of callers with a token that hold the event loop for longer than 50 ms of processor time. Every
operation is asked by each role, at the edge of what its schema takes.

Exit code 0: leadership was kept, the node joined, and requests with a token were served; no request held the loop.
1: not so.
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.trials.strangers import FLOODS, beats, crowd, flood, guard, leads
from tests.support.cluster import Cluster
from tests.support.stretches import MOST_S, ROLES, operations, served

KINDS = ("quiet", *FLOODS, "crowd")


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def stretches(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/strangers stretches")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32), help="of an earlier run")
    parser.add_argument("--times", type=int, default=5, help="generated requests of each operation (5)")
    parser.add_argument("operations", nargs="*", help="operation ids, or how they begin (all)")
    given = parser.parse_args(arguments)
    note(f"seed {given.seed}")
    good = True
    with TemporaryDirectory() as directory, served(Path(directory)) as server:
        for operation in operations():
            if given.operations and not operation.id.startswith(tuple(given.operations)):
                continue
            chosen = random.Random(f"{given.seed} {operation.id}")
            found = max(server.try_out(operation, chosen, given.times, ROLES), key=lambda one: one.seconds)
            good = good and found.seconds <= MOST_S
            print(found, flush=True)
    print("HELD" if good else "FAILED", flush=True)
    return 0 if good else 1


def main() -> int:
    if sys.argv[1:2] == ["stretches"]:
        return stretches(sys.argv[2:])
    parser = argparse.ArgumentParser(
        prog="scripts/strangers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="of each flood (30)")
    parser.add_argument("--only", default=",".join(KINDS), help=f"some of {','.join(KINDS)}")
    parser.add_argument("--idle", type=int, default=5_000, help="idle connections on each node (5000)")
    parser.add_argument("--streams", type=int, default=1_000, help="streams on each node (1000)")
    parser.add_argument("--open-files", type=int, default=0, help="hard limit of each node's descriptors (as it is)")
    given = parser.parse_args()
    good = True
    if given.open_files:
        import resource

        resource.setrlimit(resource.RLIMIT_NOFILE, (given.open_files, given.open_files))
    with Cluster(3) as cluster:
        person = guard(cluster)
        beats(person, leads(cluster, person))
        for kind in given.only.split(","):
            note(f"{kind} ...")
            try:
                if kind == "crowd":
                    found = crowd(cluster, person, given.idle, given.streams, note)
                else:
                    found = flood(cluster, person, kind, given.seconds)
                    good = good and found["same_leader"]
            except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
                note(f"{kind}: {error}")
                good = False
                continue
            print(json.dumps({"kind": kind, **found}), flush=True)
    print("HELD" if good else "FAILED", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
