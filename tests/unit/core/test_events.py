"""Events: every change of a job or an instance makes one, and no more of them are kept than the settings say."""

from __future__ import annotations

from raftsched.core import commands as c
from raftsched.core.apply import change_events
from raftsched.core.entry import encode_entry
from raftsched.core.model import JobState, Outcome, Overlap, Retry
from raftsched.core.subjects.changes import (
    PER_ROW,
    POSITION_MAX,
    Change,
    ClusterChange,
    ClusterEvent,
    InstanceChange,
    JobChange,
    JobEvent,
    change_key,
    decode_row,
    split_change,
)
from raftsched.core.tables import Table
from tests.support.memory_view import MemoryView, World, after, every, policy


def rows(world: World, since: int = 0) -> list[tuple[int, int, Change]]:
    """(index, position, event) of the entries after this one."""
    found = []
    for key, raw in world.view.scan(Table.CHANGES, change_key(since, POSITION_MAX)):
        index, position = split_change(key)
        found += [(index, position + n, change) for n, change in enumerate(decode_row(raw)[1])]
    return found


def said(world: World, since: int = 0) -> list[str]:
    texts = []
    for _, _, change in rows(world, since):
        subject = change.subject if isinstance(change, ClusterChange) else change.state.name
        texts.append(f"{type(change).__name__[:-6]} {change.event.name} {subject}".rstrip())
    return texts


def test_the_life_of_a_one_shot() -> None:
    world = World()
    session = world.session()
    since = world.index
    job = world.create(after(1_000))
    world.fire(job)
    (instance,) = world.instances(job.id)
    token = world.assign(instance.key, session)
    world.ok(c.Started(session, token, world.now))
    world.ok(c.Ended(session, token, Outcome.SUCCEEDED, world.now, world.now))
    assert said(world, since) == [
        "Job CREATED SCHEDULED",
        "Instance STATE WAITING",
        "Instance STATE LAUNCHED",
        "Instance STATE RUNNING",
        "Job STATE EXPIRED",
        "Instance STATE SUCCEEDED",
    ]
    last = rows(world, since)[-1][2]
    assert isinstance(last, InstanceChange)
    assert (last.job_id, last.nominal_at_ms, last.request) == (job.id, instance.nominal_at_ms, 0)
    assert (last.namespace, last.attempt, last.node, last.reason) == ("default", 1, "n2", None)


def test_a_job_that_fails_is_retried_and_becomes_a_dead_letter() -> None:
    world = World()
    session = world.session()
    job = world.create(every(60_000), retry=Retry((1_000,)))
    key = world.run_now(job)
    since = world.index
    world.run_once(key, session, Outcome.FAILED)
    row = world.instance(key)
    assert row.wake_at_ms is not None
    world.forward(1_000)
    world.ok(c.Wake(key, row.wake_at_ms))
    world.run_once(key, session, Outcome.FAILED)
    world.ok(c.Discard(key))
    assert said(world, since) == [
        "Instance STATE LAUNCHED",
        "Instance STATE RETRYING",
        "Instance STATE WAITING",
        "Instance STATE LAUNCHED",
        "Instance STATE FAILED",
        "Instance DISCARDED FAILED",
    ]
    failed = rows(world, since)[-2][2]
    assert isinstance(failed, InstanceChange)
    assert failed.dead_letter
    assert failed.reason == "retries_exhausted"


def test_what_people_do_with_a_job() -> None:
    world = World()
    job = world.create(every(60_000), suspended=True, overlap=Overlap.FORBID)
    since = world.index
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))  # a repeat
    world.edit(job, priority=7)
    world.edit(job, priority=7)
    key = world.run_now(job)
    world.assign(key, world.session())
    world.fire(job)
    world.fire(job)  # skipped as well: the same record
    world.ok(c.Kill(key))
    world.ok(c.Kill(key))
    world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
    world.ok(c.DeleteJob(job.id))
    assert said(world, since) == [
        "Job STATE SCHEDULED",
        "Job EDITED SCHEDULED",
        "Instance STATE WAITING",
        "Cluster SESSION_OPENED n2",
        "Instance STATE LAUNCHED",
        "Instance STATE SKIPPED",
        "Instance EXTENDED SKIPPED",
        "Instance KILL_ASKED LAUNCHED",
        "Job STATE SUSPENDED",
        "Job STATE DELETED",
    ]
    edited = rows(world, since)[1][2]
    assert edited == JobChange(JobEvent.EDITED, JobState.SCHEDULED, "default", job.id, 2)


def test_what_happens_to_the_cluster() -> None:
    world = World()
    session = world.session("n3")
    world.ok(c.PauseCluster(True))
    world.ok(c.PauseCluster(True))
    world.ok(c.PauseCluster(False))
    world.ok(c.PutQueue("mail", 3))
    world.ok(c.PutNodeRule("n1", drained=True))
    world.ok(c.EndSession(session, 1))
    world.members("n1 n2 n3", "n4")
    world.settings(steps_kept=5)
    assert said(world) == [
        "Cluster LEADER_CHANGED n1",
        "Cluster SESSION_OPENED n3",
        "Cluster CLUSTER_PAUSED",
        "Cluster CLUSTER_RESUMED",
        "Cluster QUEUE_CHANGED mail",
        "Cluster NODE_CHANGED n1",
        "Cluster SESSION_ENDED n3",
        "Cluster MEMBERS_CHANGED",
        "Cluster SETTINGS_CHANGED",
    ]
    assert all(isinstance(change.event, ClusterEvent) for _, _, change in rows(world))


def test_events_of_one_entry_are_numbered_across_its_rows() -> None:
    world = World()
    since = world.index
    world.run(*[c.CreateJob("billing", None, policy(every(60_000)), b"{}") for _ in range(2 * PER_ROW + 5)])
    found = rows(world, since)
    assert [(index, position) for index, position, _ in found] == [
        (since + 1, position) for position in range(2 * PER_ROW + 5)
    ]
    assert world.count(Table.CHANGES) == 1 + 3
    assert {change.namespace for _, _, change in found if isinstance(change, JobChange)} == {"billing"}


def test_the_oldest_go_when_there_are_too_many() -> None:
    world = World()
    world.settings(events_max=5)
    since = world.index
    jobs = [world.create(every(60_000)) for _ in range(12)]
    assert [change.job_id for _, _, change in rows(world) if isinstance(change, JobChange)] == [
        job.id for job in jobs[-5:]
    ]
    assert split_change(world.meta.changes_gone) == (since + 7, 0)
    world.run(*[c.CreateJob("default", None, policy(every(60_000)), b"{}") for _ in range(50)])
    assert world.meta.changes <= PER_ROW, "an entry goes as a whole row"


def test_and_those_that_are_too_old() -> None:
    world = World()
    world.settings(events_keep_ms=10_000)
    world.create(every(60_000))
    world.forward(10_001)
    late = world.create(every(60_000))
    assert [change.job_id for _, _, change in rows(world) if isinstance(change, JobChange)] == [late.id]
    assert world.meta.changes == 1


def test_one_entry_drops_no_more_than_a_few_rows() -> None:
    world = World()
    for _ in range(change_events.DROP_MAX + 10):
        world.create(every(60_000))
    kept = world.count(Table.CHANGES)
    world.settings(events_max=1)
    assert kept + 1 - world.count(Table.CHANGES) == change_events.DROP_MAX
    world.create(every(60_000))
    assert world.meta.changes == 1


def test_turned_off_nothing_is_recorded_and_what_was_goes() -> None:
    world = World()
    world.create(every(60_000))
    world.settings(events_max=0)
    world.create(every(60_000))
    assert world.count(Table.CHANGES) == 0
    index = world.index
    world.settings(events_max=10)
    world.create(every(60_000))
    assert split_change(world.meta.changes_gone) == (index, POSITION_MAX)
    assert said(world) == ["Cluster SETTINGS_CHANGED", "Job CREATED SCHEDULED"]


class _Counting(MemoryView):
    """How many bytes are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0
        self.of_events = 0

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        size = len(key) + len(value)
        self.written += size
        self.of_events += size if table is Table.CHANGES else 0
        super().put(table, key, value)


def test_events_cost_little_beside_what_is_stored_anyway() -> None:
    """Of a hundred one-shots, each step of all of them in one entry; the log's own rows are counted too."""
    view = _Counting()
    world = World(view)
    session = world.session(slots=1_000)
    view.written = view.of_events = 0
    log = sum(map(len, world.log))
    made = world.run(*[c.CreateJob("default", None, policy(after(0)), b'{"handler":{"exec":["true"]}}')] * 100)
    jobs = [world.job(a.job.id) for a in made if isinstance(a, c.Accepted) and a.job is not None]
    world.run(*[c.Fire(job.id, job.revision, job.nominal_at_ms or 0) for job in jobs])
    world.run(*[c.Assign(row.key, session) for row in world.instances()])
    tokens = [row.live.token for row in world.instances() if row.live is not None]
    world.run(*[c.Started(session, token, world.now) for token in tokens])
    world.run(*[c.Ended(session, token, Outcome.SUCCEEDED, world.now, world.now) for token in tokens])
    assert len(tokens) == 100
    each = view.of_events / 100
    without = (view.written - view.of_events + sum(map(len, world.log)) - log) / 100
    assert each < 250, each
    assert each < without / 8, (each, without)


def test_a_repeated_batch_makes_no_event() -> None:
    world = World()
    data = encode_entry(world.now, [(9, 1, [c.encode(c.CreateJob("default", None, policy(every(60_000)), b"{}"))])])
    world.entry(data)
    before = said(world)
    world.entry(data)
    assert said(world) == before
