"""The interfaces through which a remote worker reaches nodes, and hands over what its runs print."""

from __future__ import annotations

from typing import Protocol

from raftsched.core.model import OutputRef
from raftsched.surface.worker_sessions import (
    CloseIn,
    OutputPlace,
    PollAnswer,
    PollIn,
    Printed,
    UploadOut,
    WorkerSessionIn,
    WorkerSessionOut,
)


class NoAnswer(Exception):
    """This node did not answer, or could not: another one may. What was asked for may have happened."""


class Failed(NoAnswer):
    """This node answered that it met a fault. It may be what was asked."""


class Refused(Exception):
    """The answer would be the same at any node, for now. `status`: of HTTP; `after_s`: when to ask again."""

    def __init__(self, code: str, detail: str, status: int = 0, after_s: float | None = None) -> None:
        super().__init__(detail)
        self.code, self.detail, self.status, self.after_s = code, detail, status, after_s


class WrongOffset(Exception):
    """An upload that does not begin where the node's copy ends (409 "wrong-offset"): at `offset`, as its answer
    says."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"the node has the output up to offset {offset}")
        self.offset = offset


class SessionOver(Exception):
    """The session is not open any more: all that runs under it has to end at once."""


class Server(Protocol):
    """One node, as a worker sees it. All raise NoAnswer, Refused and (but for `open`) SessionOver; the caller says by
    its own timeouts how long it waits."""

    @property
    def name(self) -> str:
        """The address, for people."""
        ...

    async def open(self, request: WorkerSessionIn) -> WorkerSessionOut: ...

    async def poll(self, session: str, request: PollIn) -> PollAnswer: ...

    async def close(self, session: str, request: CloseIn) -> None: ...

    async def upload(
        self, session: str, token: int, offset: int, data: bytes, stream: str | None = None, *, end: bool = False
    ) -> UploadOut:
        """PUT of raw bytes of one stream, or without `stream` of frames (Content-Type FRAMES, see remote/frames.py).
        Raises WrongOffset as well."""
        ...


class Outputs(Protocol):
    """The way of what runs print to a node."""

    def begin(self, session: str, token: int) -> None:
        """A run was started: it may be printing from now on."""
        ...

    async def finish(self, session: str, token: int, output: OutputRef) -> OutputPlace | str | list[Printed] | None:
        """Returns what the report of the run's end is to carry; `output`: where it lies in this worker's own store.
        Gives up by itself, and never raises but when it is cancelled."""
        ...

    def forget(self, token: int) -> None:
        """The end is in the log, or the session is over: nobody asks for it any more."""
        ...
