"""Walks through the lanes of READY: one for each queue with limits, and one for all others."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from raftsched.core.model import Instance, Policy
from raftsched.core.rows import decode_instance, decode_job
from raftsched.core.tables import LANE_NOBODY, ReadView, Table, from_lane, lane_key, u64

# A place in a lane: the score and the instance key of a READY row. In byte order the more urgent comes first.
Place = bytes


@dataclass(slots=True)
class Lane:
    """A lane that may hold rows that nothing has been proposed for."""

    number: int
    low: Place = b""  # no row lies before it
    resume: Place | None = None  # where the last walk stopped, when it had passed over too many
    blocked: bool = False  # its queue lets nothing start
    blocked_at_ms: int = 0
    unblocked_at_ms: int | None = None  # when its rate lets the next run start
    postponed: bool = False  # many were passed over in it: other lanes are walked first
    cut: bool = False  # the last walk was cut short: the next one begins at `resume`

    def is_unblocked_by(self, now_ms: int) -> bool:
        """Returns whether the rate of its queue lets runs start again; also when the clock went back."""
        return self.unblocked_at_ms is not None and not self.blocked_at_ms <= now_ms < self.unblocked_at_ms

    def look_from(self, low: Place) -> None:
        """Makes the next walk begin at `low`, or before."""
        if low <= self.low:
            self.low = low
            self.cut = False


class LaneWalk:
    """A walk from the front and, when too many are passed over there, on from where the last walk stopped: however many
    wait for a busy node, those behind them are reached."""

    def __init__(self, view: ReadView, lane: Lane, skip: Callable[[bytes], bool], pass_over: int) -> None:
        self._view = view
        self._number = lane.number
        self._skip = skip
        self._cut = lane.cut and lane.resume is not None
        self._resume = None if self._cut else lane.resume
        self._pass_over = self._left = pass_over
        self._first_passed: Place | None = None
        self._rows = self._from((lane.resume if self._cut else None) or lane.low)
        self.head: Place | None = None  # the row at which it stands; None: at the end
        self._stopped = False
        self._step()

    def _from(self, place: Place) -> Generator[Place, None, None]:
        for row, _ in self._view.scan(Table.READY, lane_key(self._number) + place, lane_key(self._number + 1)):
            yield row[4:]

    def _step(self) -> None:
        for place in self._rows:
            if self._resume is not None and place >= self._resume:
                self._resume = None
                self._left = self._pass_over
            if not self._skip(place[8:]):
                self.head = place
                return
        self.head = None

    @property
    def done(self) -> bool:
        """Returns whether the walk is at the end, or has passed over enough."""
        return self.head is None or self._stopped

    def taken(self) -> None:
        """Goes on behind a row for which something is proposed."""
        self._step()

    def passed(self) -> None:
        """Goes on behind a row that stays where it is."""
        if self._first_passed is None:
            self._first_passed = self.head
        self._left -= 1
        if self._left <= 0 and self._resume is not None:
            self.close()
            self._rows = self._from(self._resume)
        self._step()
        self._stopped = self._left <= 0 and self.head is not None

    def close(self) -> None:
        self._rows.close()

    def leave(self, lane: Lane, cut: bool) -> bool:
        """Notes in the lane where to go on; `cut`: too many were passed over elsewhere.

        Returns False when nothing is left in the lane."""
        self.close()
        lane.cut = cut and not self.done
        if self._cut:
            lane.resume = self.head
            return True
        if self.head is None and self._first_passed is None:
            return False
        lane.low = self._first_passed or self.head or b""
        if self._resume is None or self.head is None:  # it got as far as the last one, or further
            lane.resume = self.head if self._first_passed is not None else None
            lane.cut = lane.cut and lane.resume is not None
        return True


def lanes_in_use(view: ReadView) -> list[int]:
    """Returns the lanes that have rows, by a look at the first row of each."""
    lanes: list[int] = []
    low = b""
    while (row := next(view.scan(Table.READY, low), None)) is not None:
        number = from_lane(row[0])
        lanes.append(number)
        if number == LANE_NOBODY:
            break
        low = lane_key(number + 1)
    return lanes


def waiting(view: ReadView, key: bytes) -> tuple[Instance | None, Policy | None, str]:
    """Returns the instance, the policy of the revision that it was made from, and its namespace; None: it is gone."""
    raw = view.get(Table.JOBS, key[8:16])
    instance_raw = view.get(Table.INSTANCES, key)
    if raw is None or instance_raw is None:
        return None, None, ""
    job = decode_job(raw)
    instance = decode_instance(instance_raw)
    if instance.job_revision != job.revision:
        kept = view.get(Table.REVISIONS, key[8:16] + u64(instance.job_revision))
        if kept is not None:
            job = decode_job(kept)
    return instance, job.policy, job.namespace
