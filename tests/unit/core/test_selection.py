"""What a filter matches, and that the rows that are walked for it hold all of that."""

from __future__ import annotations

import random

import msgspec

from raftsched.core import commands as c
from raftsched.core.limits import HISTORY_MAX
from raftsched.core.model import Job, JobState, PastRevision
from raftsched.core.rows import decode_job
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.selection import created_at_ms, match, walk
from raftsched.core.tables import Table, u64
from tests.support.memory_view import T0, World, every, policy

OWNERS = (None, "ana", "bo")
LABELS: tuple[dict[str, str], ...] = ({}, {"a": "1"}, {"a": "2", "b": "1"}, {"k" * 128: "\u00e9" * 256})


def test_a_walk_finds_exactly_what_matches() -> None:
    seed = random.getrandbits(32)
    print("seed", seed)
    r = random.Random(seed)
    world = World()
    for _ in range(60):
        world.forward(r.choice([0, 1, 1_000]))
        make(world, r)
    wanted = [random_filter(r, world.now) for _ in range(200)]
    jobs = [decode_job(raw) for _, raw in world.view.scan(Table.JOBS)]
    hits = 0
    for one in wanted:
        expected = sorted(job.id for job in jobs if plainly(one, job))
        hits += bool(expected)
        for until_id in (None, world.meta.last_id):
            way = walk(one, until_id)
            rows = [way.job(world.view, key, value) for key, value in way.rows(world.view)]
            found = [job for raw in rows if raw is not None and (job := match(one, raw)) is not None]
            assert sorted(job.id for job in found) == expected, one
    assert hits > 20


def make(world: World, r: random.Random) -> None:
    content = {"owner": r.choice(OWNERS), "labels": r.choice(LABELS), "params": {"owner": "ana"}}
    body = msgspec.json.encode({k: v for k, v in content.items() if v})
    name = r.choice([None, f"job-{r.randrange(100):02}", f"{r.choice('ab')}{r.randrange(100)}"])
    namespace = r.choice(["default", "billing", "etl"])
    job = policy(every(r.choice([1_000, 60_000, 3_600_000])), queue=r.choice(["default", "q"]))
    answer = world.do(c.CreateJob(namespace, name, job, body, r.random() < 0.2))
    if isinstance(answer, c.Accepted) and answer.job is not None and r.random() < 0.3:
        if r.random() < 0.3:
            world.ok(c.DeleteJob(answer.job.id))
        else:
            world.ok(c.SetJobState(answer.job.id, r.choice([JobState.SUSPENDED, JobState.EXPIRED])))


def random_filter(r: random.Random, now_ms: int) -> JobFilter:
    def some(*values: object) -> object:
        return r.choice([None, None, None, *values])

    given = {
        "namespace": some("default", "billing", "none"),
        "name": some("job-01", "a1"),
        "name_prefix": some("job-", "a", ""),
        "name_contains": some("-", "1", "b"),
        "states": r.choice([(), (), (JobState.NEW,), (JobState.SUSPENDED,), (JobState.SUSPENDED, JobState.NEW)]),
        "owner": some("ana", "bo", ""),
        "labels": r.choice([(), (), (), (("a", "1"),), (("a", "2"), ("b", "1"))]),
        "queue": some("q", "default"),
        "created_from_ms": some(T0, r.randint(T0, now_ms)),
        "created_to_ms": some(r.randint(T0, now_ms + 1)),
        "next_from_ms": some(now_ms),
        "next_to_ms": some(now_ms + 60_000),
    }
    chosen = r.sample(sorted(given), r.randint(0, 3))
    return JobFilter(**{name: given[name] for name in chosen})  # type: ignore[arg-type]


def plainly(wanted: JobFilter, job: Job) -> bool:
    """The same said another way."""
    content = msgspec.json.decode(job.body)
    created, fires = created_at_ms(job.id), job.fire_at_ms
    checks = [
        job.state is not JobState.DELETED,
        wanted.namespace in (None, job.namespace),
        wanted.name in (None, job.name),
        wanted.name_prefix is None or (job.name or "").startswith(wanted.name_prefix),
        wanted.name_contains is None or wanted.name_contains in (job.name or ""),
        not wanted.states or job.state in wanted.states,
        wanted.owner is None or content.get("owner") == wanted.owner,
        dict(wanted.labels).items() <= content.get("labels", {}).items(),
        wanted.queue in (None, job.policy.queue),
        created >= (wanted.created_from_ms or 0),
        wanted.created_to_ms is None or created < wanted.created_to_ms,
        wanted.next_from_ms is None or (fires is not None and fires >= wanted.next_from_ms),
        wanted.next_to_ms is None or (fires is not None and fires < wanted.next_to_ms),
    ]
    return all(checks)


def test_a_page_goes_on_where_the_one_before_ended_both_ways() -> None:
    world = World()
    for _ in range(5):
        world.create()
    way = walk(JobFilter())
    keys = [key for key, _ in way.rows(world.view)]
    assert [key for key, _ in way.rows(world.view, keys[1])] == keys[2:]
    assert [key for key, _ in way.rows(world.view, keys[3], reverse=True)] == keys[2::-1]
    assert list(way.rows(world.view, keys[-1])) == []
    assert list(way.rows(world.view, keys[0], reverse=True)) == []


def test_an_ordinary_job_needs_no_row_to_be_found() -> None:
    world = World()
    job = world.create()
    assert world.count(Table.TAGS) == 0
    world.ok(c.SetJobState(job.id, JobState.SUSPENDED))
    assert world.count(Table.TAGS) == 1
    world.ok(c.SetJobState(job.id, JobState.SCHEDULED))
    assert world.count(Table.TAGS) == 0


def test_tags_follow_an_edit_and_go_with_the_job() -> None:
    world = World()
    answer = world.ok(c.CreateJob("n", "a", policy(), b'{"owner":"ana","labels":{"a":"1"}}'))
    assert answer.job is not None
    assert world.count(Table.TAGS) == 3
    world.ok(c.EditJob(answer.job.id, policy(), b'{"owner":"bo"}', name="a"))
    assert world.count(Table.TAGS) == 2
    assert [k for k, _ in walk(JobFilter(owner="ana")).rows(world.view)] == []
    assert len(list(walk(JobFilter(owner="bo")).rows(world.view))) == 1
    world.ok(c.DeleteJob(answer.job.id))
    assert world.count(Table.TAGS) == 0


def test_earlier_contents_are_kept_to_a_bound_and_go_with_the_job() -> None:
    world = World()
    job = world.create(name="a")
    for priority in range(HISTORY_MAX + 3):
        world.forward(1_000)
        job = world.edit(job, suspend_after=priority + 1)
    rows = [(int.from_bytes(key[8:], "big"), raw) for key, raw in world.view.scan(Table.HISTORY)]
    assert [number for number, _ in rows] == list(range(4, HISTORY_MAX + 4))
    newest = msgspec.msgpack.decode(rows[-1][1], type=PastRevision)
    assert (newest.name, newest.body, newest.until_ms) == ("a", b"{}", world.now)
    world.ok(c.DeleteJob(job.id))
    world.ok(c.Prune(world.now + 1, 100))
    assert world.view.get(Table.JOBS, u64(job.id)) is None
    assert world.count(Table.HISTORY) == 0
