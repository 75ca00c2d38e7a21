"""The options of a supervisor and of all that it forks: one value, from the node to keepers, services and executors.

A node gives them to sentinel and supervisor as one argument of JSON. Node and supervisor start from the same source
tree, and keepers and services are forked: both sides are of one version, so a field may be added, changed or dropped
freely. Where the tree was replaced below a node that runs, and its supervisor has to be started again, a supervisor
that misses a field ends, and says which.

This module is loaded by the supervisor: the standard library and msgspec only.
"""

from __future__ import annotations

import json

import msgspec

from raftsched.config.run_options import RunOptions
from raftsched.worker.processes.users import User


class Options(RunOptions, frozen=True, kw_only=True):
    """The options of runs, and what the node has found out for them."""

    users: tuple[User, ...] = ()  # as whom runs may be, other than the node's own
    pythonpath: tuple[str, ...] = ()  # for python handlers
    http_allow: tuple[str, ...] = ("any",)  # what requests may ask, and must not: core.rules.allowed
    http_deny: tuple[str, ...] = ()
    confine: str | None = None  # the native part that confines programs; None: there is none, and Python does it
    cgroups: str | None = None  # where runs get groups of their own: what cgroup.take returned
    python_processes: int = 8  # python runs at one time; no fewer than the node may be given
    warm_max: int | None = None  # processes for python, idle ones included, unless more are at work


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The one argument of sentinel and supervisor. Descriptors are inherited."""

    options: Options
    node_fd: int  # the supervisor's end of the socket to its node
    life_fd: int  # read end of a pipe whose write end only the node has
    lock_fd: int  # held open only: the lock of the data directory
    lease_fd: int
    live_directory: str  # spool files
    package_root: str  # which the node put in front of PYTHONPATH
    open_files: int  # the soft limit for what is started (-1: none); the supervisor's own may be higher

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.node_fd, self.life_fd, self.lock_fd, self.lease_fd)

    def argument(self) -> str:
        """Returns it as JSON: not by msgspec, which refuses paths that are no UTF-8."""
        return json.dumps(msgspec.to_builtins(self), separators=(",", ":"))


def read_start(argument: str) -> Start:
    """Raises msgspec.ValidationError."""
    return msgspec.convert(json.loads(argument), Start)
