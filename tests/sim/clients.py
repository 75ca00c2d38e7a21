"""Clients: each asks one node after another for real writes, one at a time, and remembers what it was promised.

A job belongs to the client that made it, so its content is known: what was acknowledged last, or one of what may have
happened since.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.model import JobState, Policy, Trigger, TriggerKind
from raftsched.core.tables import Table, from_u64, name_key
from raftsched.errors import RaftschedError, UnknownOutcome
from raftsched.store import Store

if TYPE_CHECKING:
    from tests.sim.machine import Machine
    from tests.sim.world import World

NAMESPACE = "sim"
LATE_S = 2.0  # how much later than its timeout a call may be answered by a process that runs
POLICY = Policy(trigger=Trigger(kind=TriggerKind.MANUAL))
ABSENT = b""  # the body of a job that is not there


@dataclass
class Job:
    name: str
    job_id: int | None = None
    may_be: set[bytes] = field(default_factory=lambda: {ABSENT})  # bodies; more than one after an unknown outcome

    @property
    def certain(self) -> bool:
        return len(self.may_be) == 1 and self.job_id is not None


@dataclass
class Call:
    """One request under way."""

    number: int
    node: str
    incarnation: int
    deadline: float
    jobs: list[tuple[Job, bytes, c.Command]]  # job, its body if this is done, the command
    task: bool  # one waits for the answer
    over: bool = False


class Client:
    refusals: tuple[str, ...] = ("illegal-transition", "duplicate")  # of single commands, that are as they should be

    def __init__(self, clients: Clients, number: int, rng: random.Random) -> None:
        self.name = f"c{number}"
        self.jobs: list[Job] = []
        self.call: Call | None = None
        self._clients = clients
        self._rng = rng
        self._made = 0

    def think(self) -> None:
        world = self._clients.world
        if not self._clients.stopped:
            world.scheduler.after(self._rng.expovariate(1 / world.profile.think_s), self._ask)

    def _ask(self) -> None:
        world, rng = self._clients.world, self._rng
        running = [machine for machine in world.members() if machine.serving]
        if self._clients.stopped or self.call is not None:
            return
        if not running or self._clients.quiet_until > world.scheduler.now:
            self.think()
            return
        machine = rng.choice(running)
        changes = [self._change(machine) for _ in range(rng.choice([1, 1, 1, 2, 8]))]
        changes = [change for n, change in enumerate(changes) if change[0] not in [j for j, _, _ in changes[:n]]]
        self._clients.asked += 1
        oversize = world.profile.oversize
        if oversize and rng.random() < oversize:
            fill = b"x" * (world.options.frame_max_bytes // len(changes) + 1)
            changes = [(job, body, c.CreateJob(NAMESPACE, f"{job.name}-big", POLICY, fill)) for job, body, _ in changes]
        timeout = rng.choice(world.profile.timeouts_s)
        now = world.scheduler.now
        self.call = call = Call(
            self._clients.asked, machine.name, machine.incarnation, now + timeout, changes, rng.random() < 0.5
        )
        commands = [self._sent(command) for _, _, command in changes]
        machine.call(commands, timeout, partial(self._done, call), task=call.task)
        world.scheduler.at(call.deadline + LATE_S, self._gave_up, call)

    def _sent(self, command: c.Command) -> bytes:
        return c.encode(command)

    def _change(self, machine: Machine) -> tuple[Job, bytes, c.Command]:
        rng = self._rng
        known = [job for job in self.jobs[-20:] if job.certain and job.may_be != {ABSENT}]
        if not known or rng.random() < 0.4:
            self._made += 1
            job = Job(f"{self.name}-{self._made}")
            self.jobs.append(job)
            body = self._body()
            return job, body, c.CreateJob(NAMESPACE, job.name, POLICY, body)
        job = rng.choice(known)
        assert job.job_id is not None
        (body,) = job.may_be
        new = self._body()
        match rng.randrange(8):
            case 0:
                return job, ABSENT, c.DeleteJob(job.job_id)
            case 1:
                return job, body, c.RunNow(job.job_id, rng.getrandbits(40) + 1)
            case 2:
                state = rng.choice([JobState.SUSPENDED, JobState.SCHEDULED])
                return job, body, c.SetJobState(job.job_id, state)
            case 3:
                return job, body, c.PutSettings(Settings(catch_up_max=rng.randint(50, 100)))
            case 4:
                return job, body, c.Barrier()
            case _:
                return job, new, c.EditJob(job.job_id, POLICY, new, name=job.name)

    def _body(self) -> bytes:
        size = self._rng.choice(self._clients.world.profile.body_bytes)
        return b"{" + self._rng.randbytes(8).hex().encode() + b"x" * size + b"}"

    # ------------------------------------------------------------ answers

    def _done(self, call: Call, answers: list[c.Answer] | None, error: BaseException | None) -> None:
        """The node answered, in time or not."""
        world = self._clients.world
        call.over = True
        if call is not self.call:
            return
        self.call = None
        if answers is None:
            kind = type(error).__name__
            world.trace.event(self.name, "failed", f"{call.number} at {call.node}: {kind}")
            if isinstance(error, UnknownOutcome):
                self._unknown(call)
            elif isinstance(error, RaftschedError) and error.code in ("no-leader", "overloaded", "too-large"):
                self._clients.refused += 1
            else:
                world.checks.fail(f"{call.node} answers call {call.number} with {error!r}")
        else:
            self._acknowledged(call, answers)
        self.think()

    def as_it_should_be(self, refusal: c.Rejected) -> bool:
        return refusal.code in self.refusals

    def _acknowledged(self, call: Call, answers: list[c.Answer]) -> None:
        world = self._clients.world
        world.trace.event(self.name, "ack", f"{call.number} at {call.node}")
        self._clients.acknowledged += 1
        machine = world.machines[call.node]
        for (job, body, command), answer in zip(call.jobs, answers, strict=True):
            if isinstance(answer, c.Rejected):
                if not self.as_it_should_be(answer):
                    world.checks.fail(f"call {call.number}: {command} was refused: {answer}")
                continue
            self._clients.writes += 1
            self.done(command, answer)
            if isinstance(command, c.CreateJob):
                assert answer.job is not None
                job.job_id = answer.job.id
            job.may_be = {body}
            wrong = self._clients.wrong(job, machine.store)
            if wrong is not None:
                world.checks.fail(f"{call.node} acknowledged call {call.number} and has not applied it: {wrong}")
            if isinstance(command, c.Barrier):
                self._reads(call, machine)

    def done(self, command: c.Command, answer: c.Accepted) -> None:
        """One command was acknowledged."""

    def _reads(self, call: Call, machine: Machine) -> None:
        """Behind a barrier nothing is stale: whatever this client was promised before, by any node, is seen here."""
        under_way = [job for job, _, _ in call.jobs]
        for job in self.jobs[-20:]:
            wrong = None if job in under_way else self._clients.wrong(job, machine.store)
            if wrong is not None:
                self._clients.world.checks.fail(
                    f"{call.node} passed the barrier of call {call.number} too soon: {wrong}"
                )

    def _unknown(self, call: Call) -> None:
        self._clients.unknown += 1
        for job, body, _ in call.jobs:
            job.may_be = {*job.may_be, body}

    def gave_up(self, why: str) -> None:
        """The node is gone, or says nothing: whether it was done is not known."""
        call, self.call = self.call, None
        if call is not None:
            self._clients.world.trace.event(self.name, "unknown", f"{call.number} at {call.node}: {why}")
            self._unknown(call)
            self.think()

    def _gave_up(self, call: Call) -> None:
        if call is not self.call:
            return
        machine = self._clients.world.machines[call.node]
        if machine.running and machine.incarnation == call.incarnation and not machine.slowed:
            self._clients.world.checks.fail(
                f"{call.node} has not answered call {call.number} {LATE_S} s after its time"
            )
        self.gave_up("no answer")


class Clients:
    """All of them, and what they were promised."""

    def __init__(self, world: World, count: int, rng: random.Random) -> None:
        self.world = world
        self.stopped = False
        self.quiet_until = 0.0  # nobody asks for anything before
        self.asked = self.acknowledged = self.refused = self.unknown = 0
        self.writes = 0  # commands that were acknowledged as done
        self._clients = [self.make_client(n + 1, random.Random(rng.random())) for n in range(count)]

    def make_client(self, number: int, rng: random.Random) -> Client:
        return Client(self, number, rng)

    def start(self) -> None:
        for client in self._clients:
            client.think()

    def node_gone(self, name: str) -> None:
        for client in self._clients:
            if client.call is not None and client.call.node == name:
                client.gave_up("node gone")

    @property
    def busy(self) -> bool:
        return any(client.call is not None for client in self._clients)

    def bytes_under_way(self) -> int:
        """Bytes of the commands of unanswered calls."""
        calls = [client.call for client in self._clients if client.call is not None]
        return sum(len(c.encode(command)) for call in calls for _, _, command in call.jobs)

    def unanswered(self) -> str:
        calls = [client.call for client in self._clients if client.call is not None]
        return ", ".join(f"call {call.number} at {call.node}" for call in calls)

    def wrong(self, job: Job, store: Store | None) -> str | None:
        """How the job in this state is another one than promised; None: it is as it must be."""
        assert store is not None
        with store.read() as view:
            raw = view.get(Table.NAMES, name_key(NAMESPACE, job.name))
            row = None if raw is None else view.get(Table.JOBS, raw)
        found = ABSENT if row is None else self._body(row)
        if found not in job.may_be:
            return f"{job.name} is {found[:20]!r} and must be one of {sorted(body[:20] for body in job.may_be)}"
        if raw is not None and job.job_id is not None and from_u64(raw) != job.job_id:
            return f"{job.name} is another job than the one that was made"
        return None

    @staticmethod
    def _body(row: bytes) -> bytes:
        from raftsched.core.rows import decode_job

        return decode_job(row).body

    def lost(self, machine: Machine) -> str | None:
        """Returns what is not as promised on this node."""
        for client in self._clients:
            for job in client.jobs:
                wrong = self.wrong(job, machine.store)
                if wrong is not None:
                    return wrong
        return None
