"""python -m tests.mutants.seeds PROFILE NODES SECONDS FIRST COUNT UNTIL_S: seeds in this copy of the tree, until one
finds something. Prints one JSON object."""

from __future__ import annotations

import json
import logging
import sys
import time

from tests.sim.many import Task, run


def main(profile: str, nodes: str, seconds: str, first: str, count: str, until_s: str) -> int:
    logging.getLogger("raftsched").setLevel(logging.CRITICAL + 1)
    end = time.monotonic() + float(until_s)
    tried, violation = 0, None
    while violation is None and tried < int(count) and time.monotonic() < end:
        _, outcome = run(Task(int(first) + tried, int(nodes), float(seconds), profile))
        tried, violation = tried + 1, outcome.violation
    print(json.dumps({"tried": tried, "violation": violation}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
