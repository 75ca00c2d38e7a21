"""The job of all workloads: it writes when it starts, every 50 ms that it lives, and when it ends.

Each line is one write to a file that only its job's runs append to: what, instance, attempt, token, node, pid and the
boot clock in nanoseconds, which all processes of a machine share and nobody sets. Called as a python handler
(`beating:live`), or as a command: beating.py FILE SECONDS [FAILURES | until FLAG].
"""

from __future__ import annotations

import os
import sys
import time

BEAT_S = 0.05


class ToldToFail(Exception):
    """As it was asked to."""


def live(file: str, seconds: float, failures: int = 0, until: str | None = None) -> None:
    """Its first `failures` attempts fail, or all of them as long as the file `until` is not there."""
    env = os.environ
    names = ("RAFTSCHED_INSTANCE_ID", "RAFTSCHED_ATTEMPT", "RAFTSCHED_FENCING_TOKEN")
    where = env.get("RAFTSCHED_NODE_ID") or env["RAFTSCHED_WORKER"]
    who = " ".join([*(env[name] for name in names), where])
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(what: str) -> None:
        os.write(out, f"{what} {who} {os.getpid()} {time.clock_gettime_ns(time.CLOCK_BOOTTIME)}\n".encode())

    end = time.monotonic() + seconds
    write("start")
    try:
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(BEAT_S, left))
            write("beat")
        fails = not os.path.exists(until) if until is not None else int(env["RAFTSCHED_ATTEMPT"]) <= failures
        write("failed" if fails else "end")
        if fails:
            raise ToldToFail(f"attempt {env['RAFTSCHED_ATTEMPT']} was told to fail")
    finally:
        os.close(out)


if __name__ == "__main__":
    given = sys.argv[3:]
    live(
        sys.argv[1],
        float(sys.argv[2]),
        failures=int(given[0]) if given and given[0] != "until" else 0,
        until=given[1] if given and given[0] == "until" else None,
    )
