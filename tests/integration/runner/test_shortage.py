"""A machine that has no more processes or descriptors: what could not be started is handed back, and nothing fails."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from raftsched.core.model import Outcome
from raftsched.system import background
from raftsched.worker.processes.wire import Exec, Http, Limits, Python, Task
from tests.integration.runner.bed import Bed


@contextmanager
def no_more_files(pid: int) -> Iterator[None]:
    """This process cannot open anything else."""
    _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = {int(name) for name in os.listdir(f"/proc/{pid}/fd")}
    lowest_free = next(fd for fd in count() if fd not in taken)
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (lowest_free, most))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    "task",
    [
        Exec(("true",), {}),
        Exec(("true",), {}, limits=Limits(cpu_s=5)),
        Python("jobs:echo", b"{}", {}),
        Http("GET", "http://127.0.0.1:1/", {}, b"", ()),
    ],
    ids=["exec", "limited", "python", "http"],
)
async def test_what_finds_no_descriptor_is_not_begun(bed: Bed, task: Task) -> None:
    assert bed.runner.pid is not None
    with no_more_files(bed.runner.pid):
        end = await bed.run(task)
    assert (end.outcome, end.begun, end.started_at_ms) == (Outcome.KILLED, False, None)
    assert end.error == "this node cannot start a process: Too many open files"
    again = await bed.run(Exec(("true",), {}))
    assert (again.outcome, again.begun) == (Outcome.SUCCEEDED, True)


async def test_output_for_which_no_thread_is_found_costs_no_end(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a fork bomb has all processes of the node's user."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        end = await bed.run(Exec(("echo", "hello"), {}))
    assert (end.outcome, end.output) == (Outcome.SUCCEEDED, None)
    assert "the output could not be kept: can't start new thread" in (end.error or "")
    again = await bed.run(Exec(("echo", "hello"), {}))
    assert bed.text(again) == "hello\n"
    background.forget()
