"""Wall clocks that jump, on the leader and on the others, across changes of the leader: nothing fires twice, nothing is
lost, and nothing fires early.

Three nodes with the product's own leader, clock guard and stamps; one set of tables stands for what Raft would agree
on. At any time the clocks of a majority are right: that is what is promised for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from raftsched.bounds import DAY_MS, HOUR_MS
from raftsched.core import commands as c
from raftsched.core.apply import apply_entry
from raftsched.core.commands import Answer
from raftsched.core.entry import EntryResult, encode_entry
from raftsched.core.model import EveryMode, InstanceState, Overlap
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table
from raftsched.leader.leader import Leader
from raftsched.raft.timestamps import Timestamps
from tests.support.amounts import examples
from tests.support.invariants import violations
from tests.support.memory_view import T0, World, after, cron, every, policy
from tests.unit.leader.house import View

SECOND = 1_000
STEP_MS = 20
BEAT_MS = 100
NODES = ("n1", "n2", "n3")
EARLY_MS = 500 + BEAT_MS  # what a clock may be off unnoticed, and how old a comparison may be
LATE_MS = 5_000  # a wrong leader is found out and the next one is elected
JUMPS = (600, 5 * SECOND, 90 * SECOND, HOUR_MS, 300 * DAY_MS)


class Machine:
    """One node: its clocks, its stamps, its leader room. The rest of Raft is the test's."""

    def __init__(self, cluster: Cluster, node_id: str, boot_ms: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.wrong_ms = 0  # its wall clock minus true time
        self._boot_ms = boot_ms
        self.timestamps = Timestamps(self)
        self.offsets: dict[str, int | None] = {}
        self.leader = Leader(self, cluster.read, self)

    # ---- clock
    def wall_ms(self) -> int:
        return self.cluster.true_ms + self.wrong_ms

    def boot_ms(self) -> int:
        return self._boot_ms + self.cluster.true_ms - T0

    def monotonic(self) -> float:
        return self.boot_ms() / 1000

    # ---- what a leadership needs of the raft room
    @property
    def term(self) -> int:
        return self.cluster.term

    @property
    def leading(self) -> bool:
        return self.cluster.leads is self

    async def propose(self, commands: Sequence[bytes], timeout: float = 10.0) -> list[Answer]:
        """A deposed leader's proposals are passed on to the next one, as it is done in the product."""
        await asyncio.sleep(0)
        answers = self.cluster.commit(commands).batches[0].answers
        assert answers is not None
        return answers

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        return True

    def connection(self, peer: str) -> int | None:
        return None

    def quorum_sent_at_ms(self) -> int | None:
        return self.boot_ms() - 1

    def clock_offsets_ms(self) -> list[int | None]:
        return [self.offsets.get(node) for node in NODES if node != self.node_id]

    def measure_clocks_again(self) -> None:
        self.offsets = {}

    def clock_ahead_ms(self) -> int:
        return self.timestamps.ahead_ms()

    def trust_clock(self, ahead_of_boot_ms: int) -> None:
        self.timestamps.trust(ahead_of_boot_ms)

    def write_age_ms(self) -> int:
        return 0

    def step_down(self) -> None:
        if self.leading:
            self.cluster.given_away += 1
            self.cluster.elect(but=self)


class Cluster:
    def __init__(self, r: random.Random) -> None:
        self.random = r
        self.true_ms = T0
        self.term = 0
        self.given_away = 0
        self.seq = 0
        self.view = View()
        self.index = 0
        self.made: dict[bytes, int] = {}  # instance key -> true time of its making
        self.machines = [Machine(self, node, r.randrange(10**9)) for node in NODES]
        self.leads = self.machines[0]
        self.world = World(self.view)
        self.index = self.world.index
        self.term = 1
        self.elect()

    @contextmanager
    def read(self) -> Iterator[Any]:
        self.view.applied_index = self.index
        yield self.view

    def commit(self, commands: Sequence[bytes]) -> EntryResult:
        """Stamped by whoever leads."""
        self.seq += 1
        self.index += 1
        data = encode_entry(self.leads.timestamps.now_ms(), [(9, self.seq, list(commands))])
        before = {key for key, _ in self.view.scan(Table.INSTANCES)}
        result = apply_entry(self.view, self.index, self.term, data)
        for key, _ in self.view.scan(Table.INSTANCES):
            if key not in before:
                self.made[key] = self.true_ms
        self.leads.leader.on_applied([result])
        return result

    def do(self, command: Any) -> Any:
        answers = self.commit([c.encode(command)]).batches[0].answers
        assert answers is not None
        return answers[0]

    def create(self, trigger: Any, **fields: Any) -> int:
        answer = self.do(c.CreateJob("d", None, policy(trigger, **fields), b"{}"))
        assert answer.job is not None
        number: int = answer.job.id
        return number

    def elect(self, but: Machine | None = None) -> None:
        """Anybody, also one whose clock is wrong: Raft does not know. Its first entries are what waited meanwhile."""
        self.leads = self.random.choice([m for m in self.machines if m is not but])
        self.term += 1
        self.leads.offsets = {}
        self.leads.timestamps.begin()
        self.index += 1
        opening = [(8, self.term, [c.encode(c.OpenLeadership(self.term, self.leads.node_id))])]
        apply_entry(self.view, self.index, self.term, encode_entry(self.leads.timestamps.now_ms(), opening))
        for machine in self.machines:
            machine.leader.on_role()

    def beat(self) -> None:
        """A round of heartbeats: the leader's time goes out, the others' clocks come back."""
        leads = self.leads
        shown = leads.timestamps.shown_ms()
        for other in self.machines:
            if other is not leads:
                if shown:
                    other.timestamps.heard(shown)
                leads.offsets[other.node_id] = other.wall_ms() - leads.wall_ms()

    async def step(self) -> None:
        self.true_ms += STEP_MS
        if (self.true_ms - T0) % BEAT_MS == 0:
            self.beat()
        state = self.leads.leader.current
        if state is not None:
            state.tick()
        for _ in range(50):
            await asyncio.sleep(0)
            if not any(m.leader._tasks for m in self.machines):
                break

    def end_runs(self) -> None:
        """What was made comes to its end, so that a fixed delay goes on."""
        for row in self.world.instances():
            if row.state is InstanceState.WAITING:
                self.do(c.Kill(row.key))


async def play(cluster: Cluster, r: random.Random, jumping: bool) -> None:
    await _steps(cluster, 20)  # the first leader gets to know its clock
    ticks = [
        cluster.create(every(SECOND), overlap=Overlap.ALLOW),
        cluster.create(cron("* * * * * *"), overlap=Overlap.ALLOW),
        cluster.create(every(3 * SECOND, jitter_ms=2 * SECOND), overlap=Overlap.ALLOW),
    ]
    delayed = cluster.create(every(SECOND, mode=EveryMode.FIXED_DELAY))
    once: dict[int, int] = {}  # job -> when it is due, in true time
    begin_ms = cluster.true_ms
    wrong: Machine | None = None
    for _ in range(r.randint(10, 30)):
        if jumping:
            if wrong is not None and r.random() < 0.5:
                wrong.wrong_ms, wrong = 0, None  # set right again
            if wrong is None and r.random() < 0.6:
                wrong = r.choice([cluster.leads, *cluster.machines])
                wrong.wrong_ms = r.choice(JUMPS) * r.choice([1, -1])
        if r.random() < 0.3:
            cluster.elect(but=r.choice([None, cluster.leads]))
        if r.random() < 0.7:
            delay = r.randrange(100, 3 * SECOND)
            once[cluster.create(after(delay))] = cluster.true_ms + delay
        await _steps(cluster, r.randint(1, 60))
        cluster.end_runs()
    for machine in cluster.machines:
        machine.wrong_ms = 0
    await _steps(cluster, (LATE_MS + 3 * SECOND) // STEP_MS)
    found = violations(cluster.view)
    assert not found, "\n".join(found)
    for job_id in ticks:
        _each_once(cluster, job_id, begin_ms)
    for job_id, due_ms in once.items():
        (row,) = cluster.world.instances(job_id)
        off = cluster.made[row.key] - due_ms
        assert -EARLY_MS <= off <= LATE_MS, f"due once, and made {off} ms later"
    _goes_on(cluster, delayed)


async def _steps(cluster: Cluster, count: int) -> None:
    for step in range(count):
        await cluster.step()
        if step % 25 == 24:
            cluster.end_runs()


def _each_once(cluster: Cluster, job_id: int, begin_ms: int) -> None:
    """Every due time has one run, in time, and none was skipped."""
    rows = cluster.world.instances(job_id)
    job = decode_job(cluster.view.get(Table.JOBS, job_id.to_bytes(8, "big")) or b"")
    assert not [r for r in rows if r.gap_count], "a jump made an outage of nothing"
    times = [r.nominal_at_ms for r in rows]
    period = job.policy.trigger.period_ms or SECOND
    assert times, "it never fired"
    assert times == list(range(times[0], times[0] + len(times) * period, period)), "twice, or not at all"
    assert times[0] <= begin_ms + 2 * period + EARLY_MS
    assert times[-1] >= cluster.true_ms - 2 * period - job.policy.trigger.jitter_ms - BEAT_MS
    for row in rows:
        off = cluster.made[row.key] - row.nominal_at_ms - row.jitter_ms
        assert -EARLY_MS <= off <= LATE_MS, f"{row.nominal_at_ms} was made {off} ms after it was due"


def _goes_on(cluster: Cluster, job_id: int) -> None:
    """A wrong clock must not get into what a fixed delay counts from: it would be waited for."""
    job = decode_job(cluster.view.get(Table.JOBS, job_id.to_bytes(8, "big")) or b"")
    newest = max(cluster.made[r.key] for r in cluster.world.instances(job_id))
    assert cluster.true_ms - newest <= 3 * SECOND, f"its last run was made {cluster.true_ms - newest} ms ago"
    if job.nominal_at_ms is not None:
        assert job.nominal_at_ms <= cluster.true_ms + 2 * SECOND


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_clocks_that_jump(seed: int) -> None:
    note(f"seed {seed}")
    r = random.Random(seed)
    asyncio.run(play(Cluster(r), r, jumping=True))


def test_the_same_without_jumps_gives_no_leadership_away() -> None:
    r = random.Random()
    cluster = Cluster(r)
    asyncio.run(play(cluster, r, jumping=False))
    assert cluster.given_away == 0


def test_a_leader_whose_clock_is_wrong_gives_leadership_away() -> None:
    async def scene() -> None:
        cluster = Cluster(random.Random(1))
        await _steps(cluster, 20)
        first = cluster.leads
        first.wrong_ms = HOUR_MS
        await _steps(cluster, 20)
        assert cluster.given_away == 1
        assert cluster.leads is not first

    asyncio.run(scene())
