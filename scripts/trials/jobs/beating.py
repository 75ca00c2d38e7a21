"""The job of an endurance trial: it writes when it starts, every 50 ms that it lives, and when it ends.

Each line is one write to a file that only its job's runs append to: what, instance, attempt, token, node and the boot
clock in nanoseconds, which all processes of a machine share and nobody sets. Called as a python handler, or as a
command: beating.py FILE SECONDS [stubborn]. A stubborn one ignores TERM, closes its descriptors, and leaves for a
session of its own by a double fork; only the keeper's KILL ends it.
"""

from __future__ import annotations

import os
import signal
import sys
import time

BEAT_S = 0.05


def live(file: str, seconds: float) -> None:
    env = os.environ
    names = ("RAFTSCHED_INSTANCE_ID", "RAFTSCHED_ATTEMPT", "RAFTSCHED_FENCING_TOKEN", "RAFTSCHED_NODE_ID")
    who = " ".join(env[name] for name in names)
    out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(what: str) -> None:
        os.write(out, f"{what} {who} {time.clock_gettime_ns(time.CLOCK_BOOTTIME)}\n".encode())

    end = time.monotonic() + seconds
    write("start")
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(BEAT_S, left))
        write("beat")
    write("end")
    os.close(out)


def live_stubbornly(file: str, seconds: float) -> None:
    """Returns when the one that went away has ended: the pipe's end tells."""
    read, held = os.pipe()
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            for number in (0, 1, 2, read):
                os.close(number)
            live(file, seconds)
        os._exit(0)
    os.close(held)
    os.wait()
    os.read(read, 1)


if __name__ == "__main__":
    if sys.argv[3:] == ["stubborn"]:
        live_stubbornly(sys.argv[1], float(sys.argv[2]))
    else:
        live(sys.argv[1], float(sys.argv[2]))
