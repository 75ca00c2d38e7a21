"""Moves jobs of APScheduler 3 here, and takes over for a program that keeps its calls.

`export` describes the jobs of a scheduler or of a job store as JSON, for `raftsched jobs import`; the command
`python -m raftsched.apscheduler export STORE-URL` does the same. `JobStore` is a job store of APScheduler whose jobs
run in a cluster: the program goes on to call `add_job`, `pause_job` and the others.

A job store of APScheduler holds pickles, and to read a pickle runs what it says. So nothing is read but a store that
the caller names, by APScheduler's own code, in a process of the caller; a node or the command line never does.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftsched.apscheduler.job_store import JobStore
    from raftsched.apscheduler.stores import export

if find_spec("apscheduler") is None:
    raise ImportError("raftsched.apscheduler needs APScheduler 3: pip install 'apscheduler<4'")

_PUBLIC = {"JobStore": "raftsched.apscheduler.job_store", "export": "raftsched.apscheduler.stores"}

__all__ = ["JobStore", "export"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
