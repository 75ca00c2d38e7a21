"""The time zone data of one leadership: whether it is the data that stored times were computed with, and what to do
where it is not.

A leader that has other data says so in the log first (`UseZones`), and fires nothing until that is applied: from then
on what was computed with the data before is refused. Then it asks anew for the jobs whose next times were computed with
the data before (`moves`), a bounded number at a time, proposes those that differ (`MoveJob`), and says at the end that
all were asked (`SettleZones`). What comes due before it was asked is asked then, and not fired at a time that has
moved. Nothing of this is lost with a leadership: the next one finds the number on each job, and begins again.

Nodes may have different data, as while it is brought to the newest on one after the other. Stored times must not go to
and fro with the leadership then:

- the newest data counts that a voter has, by the version that the IANA gave it;
- where the order is not known (two builds of one version, data without a version) that counts which stored times are
  of, until no voter has it any more;
- a leader with other data than that moves nothing. It fires what is stored, because jobs have to run, and computes what
  has to be computed with the data it has. If another voter has newer data, it hands leadership over.

Waiting for the newest data instead would stop all schedules of a cluster whose only up-to-date node is down.
"""

from __future__ import annotations

import logging

import msgspec

from raftsched.core.commands import Command
from raftsched.core.levels import SINCE
from raftsched.core.model import JobState, Trigger, TriggerKind
from raftsched.core.rows import ZONES, decode_job, read_meta
from raftsched.core.subjects.zones import ZONES_KEY, MoveJob, SettleZones, UseZones, ZoneData, is_newer
from raftsched.core.tables import Table, u64
from raftsched.errors import RaftschedError
from raftsched.leader.cluster_view import Cluster
from raftsched.leader.due.moves import DataBefore, is_concerned, move_of, run_until_ms
from raftsched.leader.due.triggers import CalendarJob, Source, with_calendars
from raftsched.leader.liveness.vitals import Vitals
from raftsched.leader.pacing import Proposals
from raftsched.leader.raft_port import Host
from raftsched.schedule import Steps, TriggerError
from raftsched.schedule.offsets import Gathering, Offsets

LOOK_MS = 1_000  # between two looks at what voters have, and at the level
HEARD_MS = 2_000  # after a leadership began: whoever was not heard of by then does not count
AGAIN_MS = 10_000  # between two proposals of the same
HAND_OVER_AGAIN_MS = 60_000  # between two tries to hand leadership over
HAND_OVER_S = 5.0
PAUSE_MS = 5  # between two slices: others have their turn
ROWS = 400  # jobs looked at in one slice
ASKED = 60  # jobs asked in one slice
SEARCHED = 1_500  # steps of searches (`schedule.budget`) in one slice
ZONES_AT_ONCE = 1  # whose offsets are gathered in one slice

log = logging.getLogger("raftsched.leader")


class _PolicyHead(msgspec.Struct, array_like=True):
    trigger: Trigger


class _JobHead(msgspec.Struct, array_like=True):
    """The first fields of Job: cheaper than all of it."""

    id: int
    namespace: str
    name: str | None
    revision: int
    state: JobState
    policy: _PolicyHead


_head = msgspec.msgpack.Decoder(_JobHead).decode


class TimeZones:
    """`now_ms` is wall time, `boot_ms` the boot clock."""

    def __init__(self, host: Host, cluster: Cluster, vitals: Vitals, proposals: Proposals, since_ms: int) -> None:
        self._host = host
        self._cluster = cluster
        self._vitals = vitals
        self._proposals = proposals
        self._own = host.zones
        self._heard_by_ms = since_ms + HEARD_MS
        self._look_ms = 0
        self._hand_over_ms = since_ms
        self._proposed_ms: int | None = None  # boot clock: when UseZones or SettleZones was
        self._row = ZoneData()
        self._before = DataBefore(0, None)
        self._moves: bool | None = None  # whether this leadership moves stored times; None: that is not known yet
        self._walk_from: bytes | None = b""  # of JOBS; None: all of it was looked at
        self._again: set[int] = set()  # jobs to be asked again: they were changed meanwhile
        self._gathering: Gathering | None = None
        self._gathered = False
        self._moved = 0
        self.knows_level = False
        self.reload()

    # ------------------------------------------------------------ what it is asked

    @property
    def number(self) -> int:
        """The number that times have which this leadership computes."""
        return self._cluster.zones

    @property
    def holds_fires(self) -> bool:
        """Returns whether nothing may be fired or scheduled yet: it is not in the log that this data is computed with,
        or not known whether stored times are to be moved."""
        if self._own is None or not self.knows_level:
            return False
        return self._row.data != self._own.name or (not self._settled and self._moves is None)

    @property
    def _settled(self) -> bool:
        return self._row.settled == self._cluster.zones

    def instead_of_fire(self, found: CalendarJob, now_ms: int) -> MoveJob | None:
        """Returns what to propose in the place of a fire of a job that is due: its time has moved."""
        if self._settled or not self._moves:
            return None
        with self._host.read() as view:
            return move_of(view, found, self._before, self._cluster.zones, now_ms)

    def run_until_ms(self, source: Source, nominal_at_ms: int, zones: int) -> int:
        """Returns up to when a trigger has run once this time of it is fired, which has that number."""
        if self._settled or zones == self._cluster.zones:
            return nominal_at_ms
        return run_until_ms(source, nominal_at_ms, zones, self._before)

    # ------------------------------------------------------------ what came about

    def reload(self) -> None:
        """Reads the row anew, and begins anew with the jobs: what is known of them may be wrong."""
        with self._host.read() as view:
            meta = read_meta(view)
            row = ZONES.get(view, ZONES_KEY)
        self.knows_level = meta.level >= SINCE[UseZones]
        self._cluster.zones = meta.zones
        if row is None or self._own is None:
            return
        if (row.settled, row.offsets) != (self._row.settled, self._row.offsets):
            self._before = DataBefore(row.settled, Offsets(row.offsets) if row.offsets else None)
            self._gathering, self._gathered = None, False
        self._row = row
        self._walk_from = b""
        self._again.clear()

    def answered(self, command: Command, accepted: bool | None) -> None:
        """A MoveJob, UseZones or SettleZones was applied or refused; None: that is not known."""
        if not isinstance(command, MoveJob):
            self._proposed_ms = None
            if accepted is not None:
                self.reload_row()
        elif accepted:
            self._moved += 1
        elif accepted is False:
            self._again.add(command.job_id)

    def reload_row(self) -> None:
        """Reads the row anew."""
        walk_from, again = self._walk_from, set(self._again)
        data = self._row.data
        self.reload()
        if self._row.data == data:
            self._walk_from, self._again = walk_from, again

    # ------------------------------------------------------------ the loop's work

    def tick(self, now_ms: int) -> int | None:
        """Does the next bounded part. Returns when there is more; None: with the next tick, if ever."""
        if self._own is None:
            return None
        boot_ms = self._host.clock.boot_ms()
        if not self.knows_level:
            if boot_ms >= self._look_ms:
                self._look_ms = boot_ms + LOOK_MS
                self.reload()
            return None
        if self._row.data != self._own.name:
            self._propose(UseZones(self._own.name, self._cluster.zones), boot_ms)
            return None
        if boot_ms >= self._look_ms or (self._moves is None and not self._settled):
            self._look_ms = boot_ms + LOOK_MS
            self._look(boot_ms)
        if self._settled:
            return self._gather_anew(now_ms, boot_ms)
        return self._go_on(now_ms, boot_ms) if self._moves else None

    def _propose(self, command: UseZones | SettleZones, boot_ms: int) -> None:
        if self._proposed_ms is None or boot_ms - self._proposed_ms >= AGAIN_MS:
            self._proposed_ms = boot_ms
            self._proposals.send([command])

    def _look(self, boot_ms: int) -> None:
        """Finds out whether this leadership moves stored times, and whether another node should lead."""
        assert self._own is not None
        data = self._vitals.zones(boot_ms)
        heard = {node: data[node] for node in self._cluster.followers if node in data}
        if not self._settled:
            self._decide(heard, waited=boot_ms >= self._heard_by_ms)
        if boot_ms < max(self._heard_by_ms, self._hand_over_ms):
            return
        newer = [node for node, name in sorted(heard.items()) if is_newer(name, self._own.name)]
        to = next((node for node in newer if not self._vitals.is_short_of_disk(node)), None)
        if to is not None:
            self._hand_over_ms = boot_ms + HAND_OVER_AGAIN_MS
            log.warning("%s has newer time zone data than this node; leadership is handed over to it", to)
            self._host.spawn(self._hand_over(to))

    def _decide(self, heard: dict[str, str], *, waited: bool) -> None:
        assert self._own is not None
        own, newest = self._own.name, self._row.newest
        all_heard = len(heard) == len(self._cluster.followers)
        moves = may_move(own, newest, heard, all_heard=all_heard, waited=waited)
        if moves and not self._moves:
            self._walk_from = b""
            words = "the time zone data is %s now: the next times of jobs, which are by %s, are asked for anew"
            log.log(logging.WARNING if newest else logging.INFO, words, own, newest or "data that is not known")
        elif moves is False and self._moves is not False:
            words = "the time zone data of this node is %s: stored times, which are by %s, stay, and it moves none"
            log.warning(words, own, newest)
        self._moves = moves

    async def _hand_over(self, to: str) -> None:
        try:
            await self._host.raft.transfer(to, HAND_OVER_S)
        except RaftschedError as error:
            log.warning("leadership was not handed over to %s: %s", to, error)

    def _go_on(self, now_ms: int, boot_ms: int) -> int | None:
        """One slice of asking jobs, then of gathering offsets, then the end."""
        assert self._own is not None
        if self._walk_from is not None or self._again:
            if not self._proposals.has_room(MoveJob):
                return None
            batch = self._ask_again(now_ms) if self._walk_from is None else self._ask_next(now_ms)
            if batch:
                self._proposals.send_paced(MoveJob, batch)
            return now_ms + PAUSE_MS
        if not self._gather(now_ms):
            return now_ms + PAUSE_MS
        if not self._proposals.in_flight[MoveJob]:
            if self._proposed_ms is None:
                words = "the next times of all jobs are by the time zone data %s: %d were moved"
                log.info(words, self._own.name, self._moved)
            self._settle(boot_ms)
        return None

    def _gather_anew(self, now_ms: int, boot_ms: int) -> int | None:
        """Gathers the offsets again before those that are kept come to their end: times beyond are not compared."""
        offsets = self._before.offsets
        if offsets is None or now_ms // 1000 < offsets.ends_soon_s:
            return None
        if not self._gather(now_ms):
            return now_ms + PAUSE_MS
        self._settle(boot_ms)
        return None

    def _gather(self, now_ms: int) -> bool:
        """Gathers the offsets of some more zones. Returns whether it has all."""
        assert self._own is not None
        if self._gathering is None:
            self._gathering = Gathering(self._own.names, now_ms // 1000)
        self._gathered = self._gathered or self._gathering.go_on(ZONES_AT_ONCE)
        return self._gathered

    def _settle(self, boot_ms: int) -> None:
        assert self._gathering is not None
        self._propose(SettleZones(self._cluster.zones, self._gathering.encoded()), boot_ms)

    def _ask_next(self, now_ms: int) -> list[Command]:
        """Asks the next jobs of the table."""
        batch: list[Command] = []
        looked = asked = 0
        with self._host.read() as view, Steps() as steps:
            key = self._walk_from
            for key, raw in view.scan(Table.JOBS, self._walk_from or b""):
                looked += 1
                if self._may_differ(raw):
                    asked += 1
                    self._ask(with_calendars(view, decode_job(raw)), now_ms, batch)
                if looked >= ROWS or asked >= ASKED or steps.done >= SEARCHED:
                    self._walk_from = key + b"\0"
                    return batch
        self._walk_from = None
        return batch

    def _ask_again(self, now_ms: int) -> list[Command]:
        batch: list[Command] = []
        with self._host.read() as view:
            for _ in range(min(ASKED, len(self._again))):
                raw = view.get(Table.JOBS, u64(self._again.pop()))
                if raw is not None:
                    self._ask(with_calendars(view, decode_job(raw)), now_ms, batch)
        return batch

    def _ask(self, found: CalendarJob, now_ms: int, batch: list[Command]) -> None:
        if found.job.state is not JobState.SCHEDULED:
            return
        try:
            with self._host.read() as view:
                command = move_of(view, found, self._before, self._cluster.zones, now_ms)
        except MemoryError:  # no fault of the job
            raise
        except Exception:
            return  # it is suspended, with the reason, when it comes due
        if command is not None:
            batch.append(command)

    def _may_differ(self, raw: bytes) -> bool:
        """Returns whether a job has to be asked, as far as its first fields say."""
        job = _head(raw)
        trigger = job.policy.trigger
        if job.state is not JobState.SCHEDULED:
            return False
        if trigger.kind is TriggerKind.SEVERAL or trigger.calendar is not None:
            return True
        if not trigger.needs_calendar:
            return False
        if self._cluster.zones - self._row.settled > 1:
            return True  # it may be by data between that of the offsets and the present one
        try:
            return self._before.offsets is None or is_concerned(trigger, None, self._before.offsets)
        except TriggerError:
            return False


def may_move(own: str, newest: str, heard: dict[str, str], *, all_heard: bool, waited: bool) -> bool | None:
    """Returns whether a leader with this data moves stored times. `newest`: the newest data that they are of, "": it is
    not known; `heard`: what the other voters have, as far as they said; `all_heard`: whether they all did; `waited`:
    whether they had the time to. None: that may change once the others are heard of."""
    if any(is_newer(data, own) for data in heard.values()):
        return False
    not_yet = None if not waited else False
    if newest in ("", own) or is_newer(own, newest):
        return True if all_heard or waited else None
    if newest in heard.values():
        return False
    return True if all_heard else not_yet
