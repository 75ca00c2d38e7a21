"""Load from a pod of its own, by the Python client and its variables: one job is due each second, others are created.

At SIGTERM it waits until all runs have ended, and prints what became of everything as one line of JSON.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from itertools import pairwise
from typing import Any

import raftsched
from tests.support.patience import patient, wait_until

ENDED = {"SUCCEEDED", "FAILED", "TIMED_OUT", "KILLED", "SKIPPED"}
EACH_SECOND = "each-second"


def main() -> None:
    ends = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ends.set())
    accepted: dict[str, str] = {}  # id by name
    longest_s, last = 0.0, time.monotonic()
    with raftsched.Client(timeout=patient(60)) as client:
        due = client.jobs.create(name=EACH_SECOND, trigger={"every": "1s"}, handler={"shell": "true"}, overlap="allow")
        print("the load is there", flush=True)
        while not ends.wait(0.2):
            name = f"made-{len(accepted)}"
            accepted[name] = client.jobs.create(name=name, trigger={"manual": True}, handler={"shell": "true"}).id
            longest_s, last = max(longest_s, time.monotonic() - last), time.monotonic()
        client.jobs.pause(due)
        wait_until(lambda: all(run.state in ENDED for run in client.instances.list(job=due.id)), "all runs to end")
        runs = sorted(client.instances.list(job=due.id), key=lambda run: run.scheduled_at)
        there = {job.name: job.id for job in client.jobs.list()}
    # The last may have been due when the job was paused: it is on record, and never runs.
    ran = [run for run in runs if not (run is runs[-1] and run.state == "SKIPPED")]
    steps = [(after.scheduled_at - before.scheduled_at).total_seconds() for before, after in pairwise(runs)]
    found: dict[str, Any] = {
        "accepted": len(accepted),
        "lost": [name for name, id_ in accepted.items() if there.get(name) != id_],
        "due": len(runs),
        "missed": [step for step in steps if not 0.999 < step < 1.001],
        "not succeeded": [f"{run.scheduled_at} {run.state} {run.reason}" for run in ran if run.state != "SUCCEEDED"],
        "longest_s": round(longest_s, 2),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
