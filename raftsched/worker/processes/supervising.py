"""The start of a supervisor: what its node says to it on the command line."""

from __future__ import annotations

import argparse
import gc
import os
import signal
import socket

import msgspec

from raftsched.system import descriptors
from raftsched.worker.executors.python import PythonService
from raftsched.worker.processes.keeper import KeeperContext
from raftsched.worker.processes.lease import LeaseSlot
from raftsched.worker.processes.linux import become_subreaper
from raftsched.worker.processes.supervisor import Supervisor
from raftsched.worker.processes.users import PIDS_MAX, User


def main(argv: list[str]) -> None:
    """In the process that sentinel.py forked for it, with descriptors it inherits."""
    parser = argparse.ArgumentParser(prog="raftsched.worker.processes.supervisor")
    for name in ("node-fd", "life-fd", "lease-fd", "lock-fd", "sentinel-fd", "python-processes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("python-runs-max", "python-memory-max"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--live-directory", required=True)
    parser.add_argument("--package-root", required=True)
    parser.add_argument("--open-files", type=int, default=descriptors.given())
    parser.add_argument("--cgroups")
    for name in ("http-allow", "http-deny"):
        parser.add_argument(f"--{name}", action="append", default=[])
    parser.add_argument("--users", default="[]")
    parser.add_argument("--pids-max", type=int, default=PIDS_MAX)
    parser.add_argument("--memory-max", type=int)
    parser.add_argument("--warm-max", type=int)
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("--pythonpath", action="append", default=[])
    args = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # it ends with the node, not by signals to a whole group
    _restore_pythonpath(args.package_root)
    become_subreaper()
    context = KeeperContext(
        LeaseSlot(args.lease_fd),
        args.life_fd,
        args.lock_fd,
        args.live_directory,
        args.cgroups,
        {user.name: user for user in msgspec.json.decode(args.users, type=list[User])},
        args.pids_max,
        args.memory_max,
        (tuple(args.http_allow), tuple(args.http_deny)),
        args.nice,
    )
    os.close(args.lease_fd)
    node = socket.socket(fileno=args.node_fd)
    for fd in (args.node_fd, args.life_fd, args.lock_fd, args.sentinel_fd):
        os.set_inheritable(fd, False)
    python = PythonService(args.pythonpath, args.python_runs_max, args.python_memory_max)
    more = (args.open_files, args.warm_max)
    supervisor = Supervisor(node, context, args.sentinel_fd, args.python_processes, python, *more)
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
