"""This node's requests to the leader that are no commands: changes of the members, transfer of leadership.

Each is sent again, after every change of leader or connection and every second, until it is answered or its time is
over: the leader treats a change that is already done as done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from raftsched.errors import NoLeader, Overloaded, RaftschedError, UnknownOutcome
from raftsched.raft.codec import Answered, ChangeMembers, TransferLeadership

WAITING_MAX = 256
_RESEND_S = 1.0
_SOON_S = 0.1  # after an answer that says: not at this moment

Request = ChangeMembers | TransferLeadership
Done = Callable[[RaftschedError | None], None]


@dataclass(slots=True)
class _Waiting:
    frame: Request
    deadline: float  # monotonic seconds
    done: Done
    next_at: float = 0.0  # when it is sent again
    sent: bool = False
    may_be_done: bool = False  # it was sent and not answered, so it may be done whatever answer comes
    retry_error: RaftschedError | None = None  # the newest answer, when that was "not at this moment"


class Requests:
    """Requests without an answer yet. Their numbers begin above `last`, which differs in each life of the node: the
    leader may still answer a request made before a restart."""

    def __init__(self, last: int) -> None:
        self._waiting: dict[int, _Waiting] = {}
        self._last = last

    def next_number(self) -> int:
        self._last += 1
        return self._last

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, frame: Request, deadline: float, done: Done) -> None:
        """Raises Overloaded."""
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded()
        self._waiting[frame.request] = _Waiting(frame, deadline, done)

    def due(self, now: float) -> list[Request]:
        """Returns the requests to send now."""
        found = []
        for waiting in self._waiting.values():
            if now >= waiting.next_at:
                waiting.may_be_done = waiting.may_be_done or (waiting.sent and waiting.retry_error is None)
                waiting.next_at, waiting.sent, waiting.retry_error = now + _RESEND_S, True, None
                found.append(waiting.frame)
        return found

    def rerouted(self) -> None:
        for waiting in self._waiting.values():
            waiting.next_at = 0.0

    def answered(self, m: Answered, now: float) -> None:
        waiting = self._waiting.get(m.request)
        if waiting is None:
            return
        if m.code == "moved":
            waiting.retry_error = RaftschedError("membership-busy", m.detail)
            waiting.next_at = now + _SOON_S
            return
        del self._waiting[m.request]
        waiting.done(RaftschedError(m.code, m.detail) if m.code else None)

    def expire(self, now: float) -> None:
        late = [number for number, waiting in self._waiting.items() if waiting.deadline <= now]
        for number in late:
            waiting = self._waiting.pop(number)
            if waiting.retry_error is not None and not waiting.may_be_done:
                waiting.done(waiting.retry_error)
            else:
                waiting.done(UnknownOutcome() if waiting.sent else NoLeader())

    def stop(self) -> None:
        self.expire(float("inf"))
