"""The events of a run, in order: a digest of them always, lines to read when asked for."""

from __future__ import annotations

import hashlib
import logging
import re
import sys
from typing import TextIO

from tests.sim.loop import Scheduler


class Trace:
    """`event` is called often: it makes no line unless there is somebody to read it."""

    def __init__(self, scheduler: Scheduler, out: TextIO | None = None) -> None:
        self.events = 0
        self._scheduler = scheduler
        self._out = out
        self._digest = hashlib.blake2b(digest_size=8)

    def event(self, node: str, kind: str, *facts: object) -> None:
        """Facts must be the same in every process: no paths, no ids of objects, no sets."""
        self.events += 1
        line = f"{self._scheduler.now:10.4f} {node:<3} {kind:<9} {' '.join(map(str, facts))}"
        self._digest.update(line.encode())
        if self._out is not None:
            self._out.write(line.rstrip() + "\n")

    def note(self, node: str, kind: str, text: str) -> None:
        """For the reader only."""
        if self._out is not None:
            self._out.write(f"{self._scheduler.now:10.4f} {node:<3} {kind:<9} {text}\n")

    def digest(self) -> str:
        return self._digest.hexdigest()


# What another run of the same seed says otherwise: its temporary directory, and checksums of files, for LMDB leaves the
# gaps in its pages as the memory was.
_OF_THIS_RUN = re.compile(r"/\S*raftsched-sim-[^/\s]*|(?<=-)[0-9a-f]{16}(?=\.)")


class _Log(logging.Handler):
    """The product's own log lines, in the midst of the trace."""

    def __init__(self, trace: Trace, scheduler: Scheduler) -> None:
        super().__init__()
        self._trace = trace
        self._scheduler = scheduler

    def emit(self, record: logging.LogRecord) -> None:
        node = self._scheduler.running
        said = _OF_THIS_RUN.sub("...", record.getMessage())
        self._trace.note(node.name if node is not None else "--", "log", said)


def open_trace(scheduler: Scheduler, verbose: bool) -> Trace:
    """Verbose: to standard output, with what the product logs."""
    if not verbose:
        return Trace(scheduler)
    trace = Trace(scheduler, sys.stdout)
    log = logging.getLogger("raftsched")
    log.handlers = [_Log(trace, scheduler)]
    log.setLevel(logging.INFO)
    log.propagate = False
    return trace
