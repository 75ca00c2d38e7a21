"""When the faults are over: every run comes to its end, everything owed is there, and everybody may run again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from raftsched.core import commands as c
from raftsched.core.ids import instance_text
from raftsched.core.model import InstanceState, JobState, Outcome, Overlap
from raftsched.core.rows import decode_instance, decode_job, decode_operation, decode_session
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.subjects.operations import Operation, OperationState
from raftsched.core.tables import Table, from_u64
from tests.sim.calm import LEADER_WITHIN_S, Calm
from tests.sim.jobs.dues import not_final
from tests.sim.jobs.follows import check_followers
from tests.support.invariants import violations

if TYPE_CHECKING:
    from tests.sim.jobs.machine import JobsMachine
    from tests.sim.jobs.world import JobsWorld

AS_BEFORE_S = 12.0  # clients that wait for an answer, leaders that look at their clock, leases of before
STOPPED_WITHIN_S = 20.0
NOTHING_ENDS_S = 60.0  # runs wait for others; some end all the time
CAUGHT_UP_WITHIN_S = 30.0

# what a violation says
NEVER_ENDS = "have not come to their end"
NO_SESSION = "has no session"
WORKERS_WITHIN_S = 60.0  # another incarnation waits for the lease of the one before, and asks ever more seldom
NOT_CARRIED_OUT = "was not carried out"
RUN_AGAIN = "has run more than it was to"
NOT_LOOKED_AT = "limits are reached that nobody has looked at"


class JobsCalm(Calm):
    _world: JobsWorld

    def watch(self) -> None:
        """Raises Violation."""
        world, checks = self._world, self._world.checks
        if not world.go(LEADER_WITHIN_S + AS_BEFORE_S, self.led):
            checks.fail(f"no leader after the faults: {world.where()}")
        world.go(AS_BEFORE_S / 2)
        if not world.go(STOPPED_WITHIN_S, self._free):
            checks.fail(f"the limits could not be taken back: {world.where()}")
        world.go(AS_BEFORE_S)
        if not world.go(STOPPED_WITHIN_S, self._stopped):
            checks.fail(f"the schedules could not be stopped: {world.where()}")
        stopped_ms = world.ledger.now_ms
        world.trace.event("--", "stopped")
        left: tuple[int, int] | None = None
        while not world.go(NOTHING_ENDS_S, self._all_final):
            before, left = left, (self._left, len(world.ledger.given))
            if left == before:
                self._say_what_is_left()
        if not world.go(CAUGHT_UP_WITHIN_S, self.caught_up):
            checks.fail(f"not caught up: {world.where()}")
        if not world.go(CAUGHT_UP_WITHIN_S, self._all_looked_at):
            checks.fail(f"{NOT_LOOKED_AT}: {world.where()}")
        if not world.go(WORKERS_WITHIN_S, self._workers_hold):
            without = [worker.name for worker in world.workers.values() if not worker.holds_lease]
            checks.fail(f"{', '.join(without)} {NO_SESSION} when all is well")
        states = [checks.same_state(machine.name, machine.store) for machine in self._present()]
        world.trace.event("--", "end", *states)
        for machine in self._present():
            wrong = world.clients.lost(machine)
            if wrong is not None:
                checks.fail(f"{machine.name} has lost what was promised: {wrong}")
        self._look(self._present()[0], stopped_ms)

    def _present(self) -> list[JobsMachine]:
        return [
            world_machine for world_machine in self._world.machines.values() if world_machine in self._world.present()
        ]

    def _workers_hold(self) -> bool:
        return all(worker.holds_lease for worker in self._world.workers.values())

    def _free(self) -> bool:
        """Nothing is paused, drained or limited any more."""
        world, ledger = self._world, self._world.ledger
        commands: list[c.Command] = [c.PauseCluster(False)] if ledger.paused else []
        commands += [c.PutNodeRule(node) for node, drained in ledger.drained.items() if drained]
        commands += [c.DeleteQueue(name) for name in ledger.queues]
        self._ask(commands)
        return not commands and not world.clients.busy

    def _ask(self, commands: list[c.Command]) -> None:
        """Again and again, about once a second."""
        leader = self._world.leader()
        now = self._world.scheduler.now
        if commands and leader is not None and leader.serving and now >= self._asked_at + 1.0:
            self._asked_at = now
            leader.call([c.encode(command) for command in commands], 5.0, lambda answers, error: None)

    # ------------------------------------------------------------ the end of the schedules

    def _stopped(self) -> bool:
        """Pauses what would fire for ever, again and again until nothing would."""
        leader = self._world.leader()
        if leader is None or leader.store is None:
            return False
        with leader.store.read() as view:
            jobs = [decode_job(raw) for _, raw in view.scan(Table.JOBS)]
        own = [job for job in jobs if job.namespace != SYSTEM_NAMESPACE]
        going = [job for job in own if job.state is JobState.SCHEDULED and not job.policy.trigger.once]
        left = going + [job for job in own if job.resume_at_ms is not None]
        self._ask([c.SetJobState(job.id, JobState.SUSPENDED) for job in left])
        return not left

    _asked_at = -1.0

    def _all_final(self) -> bool:
        world = self._world
        if world.scheduler.now < self._looked_at + 0.5:
            return False
        self._looked_at = world.scheduler.now
        leader = world.leader()
        if leader is None or leader.store is None:
            return False
        with leader.store.read() as view:
            due = any(True for table in (Table.DUE, Table.DUE_LATER, Table.UNSCHEDULED) for _ in view.scan(table))
            self._left = len(not_final(view))
        return not self._left and not due and not world.truth.alive

    _looked_at = -1.0
    _left = 0

    def _all_looked_at(self) -> bool:
        """Returns whether nothing is watched any more: nothing runs, and each job was told of as not having run."""
        leader = self._world.leader()
        if leader is None or leader.store is None:
            return False
        with leader.store.read() as view:
            return next(view.scan(Table.WATCHES), None) is None

    def _say_what_is_left(self) -> None:
        world = self._world
        leader = world.leader()
        if leader is None or leader.store is None:
            world.checks.fail(f"no leader after the faults: {world.where()}")
            return
        with leader.store.read() as view:
            left = [f"{instance_text(row.key)} ({row.state.name}, {row.reason})" for row in not_final(view)]
            due = [from_u64(key[-8:]) for table in (Table.DUE, Table.DUE_LATER) for key, _ in view.scan(table)]
            owed = [from_u64(key) for key, _ in view.scan(Table.UNSCHEDULED)]
        alive = [str(run) for run in world.truth.alive.values()]
        world.checks.fail(
            f"{len(left)} instances {NEVER_ENDS}: {', '.join(left[:5])}; due {due[:5]}, unscheduled {owed[:5]}; "
            f"alive {alive[:5]}; {world.where()}"
        )

    # ------------------------------------------------------------ what is left of it all

    def _look(self, machine: JobsMachine, stopped_ms: int) -> None:
        checks = self._world.checks
        assert machine.store is not None
        with machine.store.read() as view:
            for broken in violations(view):
                checks.fail(f"the tables do not fit: {broken}")
            self._world.dues.check(view, stopped_ms)
            check_followers(self._world, view)
            for key in sorted(self._world.promised):
                if view.get(Table.INSTANCES, key) is None and not self._gone(key):
                    checks.fail(f"the run {instance_text(key)} was promised, and is not there")
            made: Counter[tuple[int, int]] = Counter()
            for _, raw in view.scan(Table.INSTANCES):
                row = decode_instance(raw)
                self._ended_well(row)
                made[row.request, row.job_id] += 1
            for _, raw in view.scan(Table.OPERATIONS):
                self._carried_out(decode_operation(raw), made)
            for one in self._present():
                number = view.get(Table.NODES, one.name.encode())
                row = None if number is None else view.get(Table.SESSIONS, number)
                if row is None or not decode_session(row).open or one.worker is None or not one.worker.holds_lease:
                    checks.fail(f"{one.name} {NO_SESSION} when all is well, or does not hold its lease")

    def _carried_out(self, operation: Operation, made: Counter[tuple[int, int]]) -> None:
        """All the jobs that it names were looked at, and each was run once."""
        fail, what = self._world.checks.fail, f"operation {operation.id} ({operation.state.name})"
        if operation.state is not OperationState.DONE or operation.examined != operation.total:
            fail(f"{what} {NOT_CARRIED_OUT}: {operation.examined} of {operation.total}")
        runs = {job_id: count for (request, job_id), count in made.items() if request == operation.id}
        if any(count > 1 for count in runs.values()) or len(runs) > operation.changed:
            fail(f"{what} {RUN_AGAIN}: {operation.changed} were to run, and there are {runs}")
        if len(runs) < operation.changed and not self._world.dues.deleted:
            fail(f"{what} says that it ran {operation.changed}, and there are {len(runs)} runs of it")

    def _gone(self, key: bytes) -> bool:
        return int.from_bytes(key[8:16], "big") in self._world.dues.deleted

    def _ended_well(self, row: object) -> None:
        """It ran at least once, or it is said why not."""
        world = self._world
        assert hasattr(row, "attempts")
        what = f"{instance_text(row.key)} is {row.state.name}"
        for attempt in row.attempts:
            if attempt.outcome is None:
                world.checks.fail(f"{what}, and attempt {attempt.token} has no end")
        last = row.attempts[-1] if row.attempts else None
        match row.state:
            case InstanceState.SUCCEEDED:
                if last is None or last.outcome is not Outcome.SUCCEEDED:
                    world.checks.fail(f"{what}, and its last attempt is {last}")
            case InstanceState.FAILED | InstanceState.TIMED_OUT:
                if last is None and row.reason != "conditions_timeout":
                    world.checks.fail(f"{what}, and nobody ever tried it")
            case InstanceState.KILLED:
                revisions = world.ledger.policies[row.job_id].values()
                replaced = row.reason == "replaced" and any(p.overlap is Overlap.REPLACE for p in revisions)
                asked = row.key in world.ledger.kills or row.job_id in world.ledger.ended_jobs
                asked = asked or (row.root or row.key) in world.ledger.killed_roots
                itself = row.reason == "cancelled" and last is not None and last.outcome is Outcome.CANCELLED
                if not asked and not replaced and not itself:
                    world.checks.fail(f"{what} ({row.reason}), and nobody asked for it")
            case InstanceState.SKIPPED:
                if not row.gap_count and row.reason not in ("start_deadline", "expired_unstarted"):
                    world.checks.fail(f"{what} ({row.reason}), and stands for no gap")
            case _:
                world.checks.fail(f"{what} at the end")
