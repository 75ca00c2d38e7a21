"""Carries out operations on many jobs: proposes one step after the other, of each operation in turn.

Nothing that matters is remembered here: how far an operation is stands in its row, and a step that was done is refused
when it is proposed again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

from raftsched.core.commands import Accepted, StepOperation, encode
from raftsched.core.rows import decode_operation
from raftsched.core.subjects.operations import Operation, OperationState
from raftsched.core.tables import ReadView, Table, from_u64, u64
from raftsched.errors import RaftschedError
from raftsched.leader.raft_port import RaftFacade

log = logging.getLogger("raftsched.leader")

ROWS = 2_000  # looked at in one step
JOBS = 100  # acted on in one step: one entry's apply must stay short, others wait behind it
AGAIN_AFTER_MS = 500
TIMEOUT_S = 10.0


class Operations:
    """The operations of one leadership; `current` says whether that goes on. Times are boot-clock milliseconds."""

    def __init__(
        self,
        view: ReadView,
        read: Callable[[], AbstractContextManager[ReadView]],
        raft: RaftFacade,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        current: Callable[[], bool],
    ) -> None:
        self._read = read
        self._raft = raft
        self._spawn = spawn
        self._current = current
        self._open = deque(from_u64(key) for key, _ in view.scan(Table.OPERATIONS_RUNNING))
        self._busy = False
        self._failed = False
        self._not_before_ms = 0

    def started(self, number: int) -> None:
        if number not in self._open:
            self._open.append(number)

    def pump(self, now_ms: int) -> None:
        """Starts the next steps if there are any; after a failure not at once."""
        if self._failed:
            self._failed = False
            self._not_before_ms = now_ms + AGAIN_AFTER_MS
        if self._open and not self._busy and now_ms >= self._not_before_ms:
            self._busy = True
            self._spawn(self._go_on())

    async def _go_on(self) -> None:
        try:
            waiting = 0  # of those that are open, since the last step
            while len(self._open) > waiting and self._current():
                number = self._open.popleft()
                operation = self._row(number)
                if operation is None or operation.state is not OperationState.RUNNING:
                    continue
                self._open.append(number)
                if self._waits(operation):
                    waiting += 1
                    continue
                waiting = 0
                step = StepOperation(number, operation.steps, ROWS, JOBS)
                answer = (await self._raft.propose([encode(step)], TIMEOUT_S))[0]
                if not isinstance(answer, Accepted):  # cancelled meanwhile, or an earlier step that came late
                    self._failed = True
                    return
        except RaftschedError as error:
            self._failed = True
            log.warning("a step of an operation was not confirmed (%s); it is tried again", error)
        except Exception:
            self._failed = True
            raise
        finally:
            self._busy = False

    def _waits(self, operation: Operation) -> bool:
        """Returns whether it is to choose by the next fire times of jobs, and one that was there when it began has its
        next time still to come from the leader: apply could not tell whether that job matches."""
        if operation.filter is None or not operation.filter.by_due_time:
            return False
        with self._read() as view:
            owed = view.scan(Table.UNSCHEDULED, b"", u64(operation.until_id) + b"\0")
            return any(from_u64(since) <= operation.created_at_ms for _, since in owed)

    def _row(self, number: int) -> Operation | None:
        with self._read() as view:
            raw = view.get(Table.OPERATIONS, u64(number))
        return None if raw is None else decode_operation(raw)
