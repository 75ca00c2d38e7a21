"""stdout and stderr of a process in which several runs print: each of them gets what is written in its context."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

from raftsched.output.format.spool import STDERR, STDOUT
from raftsched.worker.processes.run_outputs import hiding_parts, parts


class RunOutput:
    """The output of one run, as it is written."""

    def __init__(self, fd: int, token: int, hidden: tuple[str, ...]) -> None:
        """`fd`: a pipe to the keeper. `hidden`: what it is not to show of this."""
        self._fd = fd
        self._token = token
        self._streams: dict[int, io.TextIOWrapper] = {}
        self.used = bool(hidden)  # whether the keeper has heard of it
        for part in hiding_parts(token, hidden) if hidden else ():
            os.write(fd, part)

    def stream(self, kind: int) -> io.TextIOWrapper:
        found = self._streams.get(kind)
        if found is None:
            self.used = True
            raw = io.BufferedWriter(_Raw(self._fd, self._token, kind))
            found = io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", line_buffering=True)
            self._streams[kind] = found
        return found

    def flush(self) -> None:
        """Writes what waits for the end of its line."""
        for stream in self._streams.values():
            if not stream.closed:
                stream.flush()


class _Raw(io.RawIOBase):
    def __init__(self, fd: int, token: int, kind: int) -> None:
        self._fd, self._token, self._kind = fd, token, kind

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        for part in parts(self._token, self._kind, view):
            os.write(self._fd, part)
        return len(view)


class ContextStream:
    """Stands in the place of sys.stdout or sys.stderr."""

    def __init__(self, kind: int, current: Callable[[], RunOutput | None], otherwise: io.TextIOWrapper) -> None:
        """`current`: where the run prints that calls it; None: no run does, and it is printed by `otherwise`."""
        self._kind = kind
        self._current = current
        self._otherwise = otherwise

    def _now(self) -> io.TextIOWrapper:
        output = self._current()
        return self._otherwise if output is None else output.stream(self._kind)

    def write(self, text: str) -> int:
        return self._now().write(text)

    def flush(self) -> None:
        self._now().flush()

    def fileno(self) -> int:
        """Returns the descriptor of the process, which is no run's."""
        return self._otherwise.fileno()

    def close(self) -> None:
        self.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._now(), name)


def context_streams(
    current: Callable[[], RunOutput | None], out: io.TextIOWrapper, err: io.TextIOWrapper
) -> tuple[ContextStream, ContextStream]:
    """Returns what takes the place of stdout and of stderr, `out` and `err` for what no run prints."""
    return ContextStream(STDOUT, current, out), ContextStream(STDERR, current, err)
