"""Work that is killed at each line that it comes by, in turn, until it comes through: each time it is looked at what it
leaves behind. For a process that is there for that alone. A shared run takes a third of the lines, others each time.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from tests.support.amounts import SHARED
from tests.support.modules import ROOT

KILLED = 9
GAP = 5 if SHARED else 1  # lines from one at which it is killed to the next, at most


def at_each_line(
    prepare: Callable[[], Callable[[], None]], files: Sequence[str], calls: Sequence[str] = ()
) -> Iterator[int]:
    """Yields the number of the line at which the work was killed, and at last one after its end. `prepare`: called
    in the child, returns the work. `files`: of raftsched, whose lines count. `calls`: names in os; before and after
    each call counts, too. What is prepared before the first line has to be there again before the next."""
    where = {str(ROOT / name) for name in files}
    missing = [name for name in where if not os.path.exists(name)]
    assert not missing, missing
    os.fsync = os.fdatasync = lambda fd: None  # a killed process needs none
    line, status = random.SystemRandom().randrange(GAP), KILLED
    while status == KILLED:
        child = os.fork()
        if not child:
            _work(prepare(), where, calls, line)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, KILLED), (line, status)
        yield line
        line += random.SystemRandom().randint(1, GAP)


def _work(work: Callable[[], None], where: set[str], calls: Sequence[str], left: int) -> None:
    """Ends the process after so many lines, else at the end."""

    def come_by() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            os._exit(KILLED)

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in where:
            return None
        if event == "line":
            come_by()
        return trace

    def counted(function: Callable[..., object]) -> Callable[..., None]:
        def call(*arguments: Any, **more: Any) -> None:
            come_by()
            function(*arguments, **more)
            come_by()

        return call

    for name in calls:
        setattr(os, name, counted(getattr(os, name)))
    sys.settrace(trace)
    work()
    sys.settrace(None)
    os._exit(0)
