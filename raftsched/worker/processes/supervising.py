"""Starts a supervisor, with what its node gave it."""

from __future__ import annotations

import gc
import os
import signal
import socket

from raftsched.worker.processes.lease import LeaseSlot
from raftsched.worker.processes.linux import become_subreaper
from raftsched.worker.processes.options import Start
from raftsched.worker.processes.supervisor import Supervisor
from raftsched.worker.processes.tree import KeeperContext


def main(start: Start, sentinel_fd: int) -> None:
    """Runs in the process that sentinel.py forked for it, with descriptors it inherits."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # it ends with the node, not by signals to a whole group
    _restore_pythonpath(start.package_root)
    become_subreaper()
    lease = LeaseSlot(start.lease_fd)
    context = KeeperContext(lease, start.life_fd, start.lock_fd, start.live_directory, start.options)
    os.close(start.lease_fd)
    node = socket.socket(fileno=start.node_fd)
    for fd in (start.node_fd, start.life_fd, start.lock_fd, sentinel_fd):
        os.set_inheritable(fd, False)
    supervisor = Supervisor(node, context, sentinel_fd, start.open_files)
    gc.disable()
    gc.freeze()  # forked processes do not touch, and so do not copy, what is there now
    supervisor.run()


def _restore_pythonpath(root: str) -> None:
    """The node put the package's own place in front; jobs get what there was."""
    rest = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if rest and rest[0] == root:
        del rest[0]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)
