"""The sentinel: what is above the supervisor, for the case that somebody kills or stops those who are to kill.

A keeper ends its tree, and the supervisor what a keeper left that was itself killed. The sentinel does the same one
level up: it is a subreaper, so whatever survives a supervisor falls to it, and it goes only when nothing is left.
Keepers end what runs when the lease is about to end; a moment later the supervisor ends keepers that did not, because
somebody stopped them; another moment later the sentinel ends the supervisor, and with it everything. The supervisor
watches the sentinel in turn. So of the three any two may be killed or stopped at one time.

It holds the lock of the data directory like the keepers, runs no code of anybody else and needs no network, no disk
and hardly any memory.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback

from raftsched.system.clock import Clock, SystemClock
from raftsched.worker.processes.lease import LeaseSlot, Watch
from raftsched.worker.processes.linux import become_subreaper, close_all_but, end_descendants, lives_below, rename
from raftsched.worker.processes.options import read_start
from raftsched.worker.processes.users import gain_nothing

LATE_MS = 300  # after the keepers began to kill, and long after the supervisor looked; before the lease's end


def stand(supervisor: int, slot: LeaseSlot, clock: Clock) -> None:
    """Waits until the supervisor is gone and nothing of what was below it is left."""
    pidfd = os.pidfd_open(supervisor)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    watch = Watch(slot, LATE_MS, clock.boot_ms())
    while not poll.poll(watch.wait_ms(clock.boot_ms())):
        if watch.due(clock.boot_ms()) and lives_below(supervisor):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    end_descendants()


def main(argv: list[str]) -> None:
    """`python -m raftsched.worker.processes.sentinel START`, started by runner.py; START is options.Start as JSON."""
    start = read_start(argv[0])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    gain_nothing(allow_new_privileges=start.options.allow_new_privileges)
    become_subreaper()
    node = os.getppid()
    watched, watching = os.pipe()
    supervisor = os.fork()
    if supervisor == 0:
        os.setsid()  # what is sent to the group of one does not reach the other
        os.close(watching)
        from raftsched.worker.processes.supervising import main as supervise

        supervise(start, watched)
        sys.exit(0)
    code = 0
    try:
        close_all_but({0, 1, 2, start.lease_fd, start.lock_fd, watching})
        # Who kills every process that has the product's name in its command line means the jobs as well.
        rename(f"job-sentinel of pid {node}")
        stand(supervisor, LeaseSlot(start.lease_fd), SystemClock())
    except BaseException:
        code = 70
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
