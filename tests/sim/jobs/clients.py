"""Clients that make jobs of all kinds, edit, pause, kill and run them; see tests.sim.clients for how they ask."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import msgspec

from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.limits import RECURRING
from raftsched.core.model import (
    FINAL,
    After,
    AfterOn,
    Condition,
    ConditionKind,
    Delivery,
    EveryMode,
    JobState,
    Misfire,
    MisfirePolicy,
    Overlap,
    Policy,
    Retention,
    Retry,
    Trigger,
    TriggerKind,
)
from raftsched.core.model import Job as JobRow
from raftsched.core.rows import decode_instance, decode_job
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.subjects.calendar import PutCalendar
from raftsched.core.subjects.notices import MEASURED, Notify
from raftsched.core.subjects.operations import BulkAction
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from raftsched.core.tables import Table, u64
from tests.sim.clients import ABSENT, NAMESPACE, Client, Clients, Job
from tests.sim.clocks import EPOCH_MS
from tests.sim.jobs.dues import SHUT, shut_content

if TYPE_CHECKING:
    from tests.sim.jobs.world import JobsWorld
    from tests.sim.machine import Machine

QUEUES = ("narrow", "slow")
CALENDARS = ("open", "free", SHUT)
SHUT_CONTENT = shut_content(EPOCH_MS - 1_000_000)  # clocks may be slow
WATCHER = "watcher"  # a webhook that is told nothing: the limits of jobs that name it are looked at all the same
ASKED = {
    "delete": 2,
    "run": 6,
    "kill": 4,
    "rerun": 3,
    "pause": 2,
    "resume": 5,
    "expire": 1,
    "edit": 5,
    "settings": 1,
    "requeue": 3,
    "backfill": 2,
    "skip": 2,
    "queue": 3,
    "node": 2,
    "cluster": 2,
    "bulk": 1,
    "calendar": 3,
    "webhook": 2,
    "workflow": 1,
}
KEYS = {"red": 1, "blue": 3}  # of runs -> how many may go at one time, whatever job they are of
KEEP_ALL = Retention(100_000, 100_000)


class JobClient(Client):
    refusals = (
        "illegal-transition",
        "duplicate",
        "not-found",
        "stale",
        "overloaded",
        "too-many",
        "stale-revision",
        "not-next",
        "no-such-member",
    )

    def as_it_should_be(self, refusal: c.Rejected) -> bool:
        """Also of a job that would wait for itself: what is awaited or followed is drawn without a look at the
        others."""
        pointer = refusal.pointer or ""
        return super().as_it_should_be(refusal) or pointer.endswith("/job_succeeded") or pointer == "/trigger/after"

    def __init__(self, clients: JobClients, number: int, rng: random.Random) -> None:
        super().__init__(clients, number, rng)
        self.instances: list[bytes] = []  # manual runs that were acknowledged
        self._policies: dict[str, Policy] = {}
        self._keyed: dict[int, c.RunNow] = {}  # by job: the last one that was sent under a key
        self._world = clients.world

    def _sent(self, command: c.Command) -> bytes:
        """Every other client shows who it is."""
        raw = super()._sent(command)
        number = int(self.name[1:])
        if number % 2:
            return raw
        work = isinstance(command, (c.CreateJob, c.RunNow))
        return c.encode(c.Attributed(msgspec.Raw(raw), number, self.name, type(command).__name__, work=work))

    # ------------------------------------------------------------ what it asks for

    def _change(self, machine: Machine) -> tuple[Job, bytes, c.Command]:
        rng = self._rng
        if not self.jobs and self.name == "c1" and self._world.ledger.counts.get("PutSettings", 0) == 0:
            return Job("none"), ABSENT, c.PutSettings(self._settings())
        known = [job for job in self.jobs[-40:] if job.certain and job.may_be != {ABSENT}]
        recurring = [job for job in known if not self._policies[job.name].trigger.once]
        if not known or rng.random() < 0.35:
            return self._create(once=len(recurring) >= self._world.profile.recurring)
        job = rng.choice(recurring if recurring and rng.random() < 0.7 else known)
        assert job.job_id is not None
        (body,) = job.may_be
        weights = ASKED | self._world.profile.asks
        match rng.choices(list(weights), list(weights.values()))[0]:
            case "delete":
                return job, ABSENT, c.DeleteJob(job.job_id)
            case "kill" if (key := self._some_instance()) is not None:
                return job, body, c.Kill(key)
            case "rerun" if (key := self._some_instance()) is not None:
                return job, body, c.Rerun(key, downstream=rng.random() < 0.3)
            case "workflow" if (root := self._some_root()) is not None:
                return job, body, c.KillWorkflow(root)
            case "pause":
                until = self._now_ms() + rng.randint(200, 6_000) if rng.random() < 0.5 else None
                return job, body, c.SetJobState(job.job_id, JobState.SUSPENDED, resume_at_ms=until)
            case "resume":
                return job, body, c.SetJobState(job.job_id, JobState.SCHEDULED)
            case "expire":
                return job, body, c.SetJobState(job.job_id, JobState.EXPIRED, kill=rng.random() < 0.5)
            case "edit":
                policy = self._policies[job.name] = self._edited(self._policies[job.name])
                new = self._body()
                return job, new, c.EditJob(job.job_id, policy, new, name=job.name)
            case "requeue" if (key := self._some_instance()) is not None:
                return job, body, c.Requeue(key) if rng.random() < 0.7 else c.Discard(key)
            case "backfill":
                found = self._row(job.job_id)
                if found is not None and not found.policy.trigger.once:
                    now = self._now_ms() - 10_000
                    times = tuple(sorted(now + rng.randrange(9_000) for _ in range(rng.randint(1, 3))))
                    times = tuple(dict.fromkeys(times))
                    return job, body, c.Backfill(job.job_id, found.revision, times)
            case "skip":
                found = self._row(job.job_id)
                if found is not None and found.nominal_at_ms is not None:
                    return job, body, c.SkipNext(job.job_id, found.nominal_at_ms)
            case "queue":
                return job, body, self._queue()
            case "node":
                node = rng.choice(list(self._world.machines))
                slots = rng.choice([None, None, 1, 6])
                return job, body, c.PutNodeRule(node, drained=rng.random() < 0.3, slots=slots)
            case "cluster":
                return job, body, c.PauseCluster(rng.random() < 0.3)
            case "calendar":
                return job, body, self._calendar()
            case "webhook":
                return job, body, PutWebhook(WATCHER, WebhookSpec(url="http://h/", active=False), b"s" * 32)
            case "settings":
                return job, body, c.PutSettings(self._settings())
            case "bulk":
                ids = [one.job_id for one in known if one.job_id is not None]
                return job, body, c.StartOperation(BulkAction.RUN, None, tuple(ids))
        priority = rng.choice([None, rng.randrange(10)])
        return job, body, self._run(job.job_id, priority)

    def _run(self, job_id: int, priority: int | None) -> c.RunNow:
        """Half of them under a key, and half of those sent again under it, whatever became of them."""
        rng = self._rng
        number = rng.getrandbits(40) + (1 << 30)
        sent = self._keyed.get(job_id)
        if sent is not None and rng.random() < 0.5:
            return c.RunNow(job_id, number, key=sent.key, digest=sent.digest)
        if rng.random() < 0.5:
            return c.RunNow(job_id, number, priority=priority)
        self._keyed[job_id] = c.RunNow(job_id, number, priority=priority, key=rng.randbytes(32), digest=b"d" * 32)
        return self._keyed[job_id]

    def _row(self, job_id: int) -> JobRow | None:
        """As some node has it."""
        stores = [machine.store for machine in self._world.machines.values() if machine.store is not None]
        if not stores:
            return None
        with self._rng.choice(stores).read() as view:
            raw = view.get(Table.JOBS, u64(job_id))
        return None if raw is None else decode_job(raw)

    def _queue(self) -> c.Command:
        rng = self._rng
        name = rng.choice(QUEUES)
        if rng.random() < 0.2:
            return c.DeleteQueue(name)
        rate = rng.choice([None, None, rng.randint(1, 5)])
        most = rng.choice([None, 1, 2, 5])
        return c.PutQueue(name, most, rate, 1_000 if rate else 0, paused=rng.random() < 0.2)

    def _calendar(self) -> c.Command:
        """It excludes nothing that comes, or always the same: what is owed stays owed, however often it is computed
        anew."""
        name = self._rng.choice(CALENDARS)
        content = f'{{"dates":["2001-01-{self._rng.randint(1, 28):02}"]}}'.encode()
        return PutCalendar(name, SHUT_CONTENT if name == SHUT else content)

    def _with_calendar(self, trigger: Trigger) -> Trigger:
        """Sometimes with one that some node knows."""
        stores = [machine.store for machine in self._world.machines.values() if machine.store is not None]
        if trigger.kind not in RECURRING or trigger.mode is EveryMode.FIXED_DELAY or not stores:
            return trigger
        with self._rng.choice(stores).read() as view:
            known = [name for name in CALENDARS if view.get(Table.CALENDARS, name.encode()) is not None]
        name = self._rng.choice([None, *known])
        moves = name is not None and self._rng.random() < 0.5
        return msgspec.structs.replace(trigger, calendar=name, calendar_moves=moves)

    def _some_instance(self) -> bytes | None:
        """Of a manual run, or one that is in the tables of some node now."""
        rng = self._rng
        if self.instances and rng.random() < 0.5:
            return rng.choice(self.instances[-10:])
        machines = [machine for machine in self._world.machines.values() if machine.store is not None]
        if not machines:
            return None
        store = rng.choice(machines).store
        assert store is not None
        with store.read() as view:
            keys = [key for key, _ in view.scan(Table.ASSIGNED)] and [key for _, key in view.scan(Table.ASSIGNED)]
            if not keys or rng.random() < 0.3:
                newest = []
                for key, raw in view.scan(Table.INSTANCES, reverse=True):
                    row = decode_instance(raw)
                    if row.state in FINAL and not row.gap_count:
                        newest.append(key)
                    if len(newest) >= 5:
                        break
                keys = newest
        return rng.choice(keys) if keys else None

    def _some_root(self) -> bytes | None:
        """Of a workflow that some node knows."""
        stores = [machine.store for machine in self._world.machines.values() if machine.store is not None]
        if not stores:
            return None
        with self._rng.choice(stores).read() as view:
            roots = sorted({key[:24] for key, _ in view.scan(Table.WORKFLOWS)})
        return self._rng.choice(roots) if roots else None

    def _settings(self) -> Settings:
        return self._world.draw_settings(self._rng)

    def _create(self, once: bool) -> tuple[Job, bytes, c.Command]:
        rng = self._rng
        self._made += 1
        job = Job(f"{self.name}-{self._made}")
        self.jobs.append(job)
        body = self._body()
        policy = self._policy(self._with_calendar(self._trigger(once)))
        if not once and rng.random() < 0.25:
            policy = self._with_several(policy)
        self._policies[job.name] = policy
        return job, body, c.CreateJob(NAMESPACE, job.name, policy, body, suspended=rng.random() < 0.05)

    def _now_ms(self) -> int:
        return EPOCH_MS + int(self._world.scheduler.now * 1000)

    def _trigger(self, once: bool) -> Trigger:
        rng, now = self._rng, self._now_ms()
        others = [job.name for job in self.jobs[:-1][-8:]]
        kinds = ["at", "at", "in", "manual"] if once else ["rate", "rate", "delay", "cron", "cron", "manual"]
        if others and not once and rng.random() < 0.25:
            names = rng.sample(others, min(len(others), rng.choice([1, 1, 1, 2, 3])))
            after = After(tuple(f"{NAMESPACE}/{name}" for name in names), rng.choice(list(AfterOn)), rng.random() < 0.5)
            return Trigger(kind=TriggerKind.AFTER, after=after, max_runs=rng.choice([None] * 9 + [3]))
        kind = rng.choice(kinds)
        jitter = rng.choice([0, 0, 0, rng.randint(1, 3_000)])
        ends = rng.choice([None, None, None, now + rng.randint(2_000, 40_000)])
        starts = rng.choice([None, None, None, now + rng.randint(-5_000, 8_000)])
        runs = rng.choice([None, None, None, rng.randint(1, 8)])
        period = rng.choice([1_000, 2_000, 3_000, rng.randint(1_000, 6_000)])
        match kind:
            case "at":
                return Trigger(kind=TriggerKind.AT, at_ms=now + rng.randint(-3_000, 8_000), jitter_ms=jitter)
            case "in":
                return Trigger(kind=TriggerKind.IN, period_ms=rng.randint(0, 6_000))
            case "rate":
                return Trigger(
                    kind=TriggerKind.EVERY,
                    period_ms=period,
                    jitter_ms=jitter,
                    starts_at_ms=starts,
                    ends_at_ms=ends,
                    max_runs=runs,
                )
            case "delay":
                return Trigger(
                    kind=TriggerKind.EVERY, period_ms=period, mode=EveryMode.FIXED_DELAY, ends_at_ms=ends, max_runs=runs
                )
            case "cron":
                return Trigger(
                    kind=TriggerKind.CRON,
                    expr=f"*/{rng.choice([1, 2, 3, 5])} * * * * *",
                    jitter_ms=min(jitter, 900),
                    starts_at_ms=starts,
                    ends_at_ms=ends,
                    max_runs=runs,
                )
            case _:
                return Trigger(kind=TriggerKind.MANUAL)

    def _with_several(self, policy: Policy) -> Policy:
        """The same with several triggers; of those that it had some stay."""
        rng = self._rng
        names = rng.sample(["a", "b", "c", "d"], rng.choice([2, 2, 3]))
        known = {trigger.id: trigger for trigger in policy.triggers if rng.random() < 0.6}
        triggers = tuple(known.get(name) or self._one_of_several(name) for name in names)
        limit = rng.choice([None, None, None, rng.randint(1, 12)])
        if known:
            limit = policy.trigger.max_runs
        return msgspec.structs.replace(
            policy, trigger=Trigger(kind=TriggerKind.SEVERAL, max_runs=limit), triggers=triggers
        )

    def _one_of_several(self, name: str) -> Trigger:
        found = Trigger(kind=TriggerKind.MANUAL)
        while found.kind is TriggerKind.MANUAL:
            found = self._trigger(once=self._rng.random() < 0.2)
        return self._with_calendar(msgspec.structs.replace(found, id=name, max_runs=None))

    def _policy(self, trigger: Trigger, shared: bool | None = None) -> Policy:
        """`shared`: whether runs may overlap; it stays as it is over edits, so that it can be said what must not be."""
        rng = self._rng
        if shared is None:
            shared = rng.random() < 0.25
        apart = [Overlap.FORBID, Overlap.FORBID, Overlap.QUEUE_ONE, Overlap.QUEUE_ALL, Overlap.REPLACE]
        delays = tuple(rng.randint(50, 2_000) for _ in range(rng.choice([0, 0, 1, 3])))
        grace = rng.choice([1_000, 5_000, 900_000])
        return Policy(
            trigger=trigger,
            priority=rng.choice([5, 5, rng.randrange(10)]),
            timeout_ms=rng.choice(self._world.profile.run_timeouts_ms),
            delivery=rng.choice([Delivery.AT_LEAST_ONCE] * 5 + [Delivery.AT_MOST_ONCE]),
            max_lost=rng.choice([0, 1, 3, 3]),
            suspend_after=rng.choice([None, None, None, 2]),
            retry=Retry(delays),
            overlap=Overlap.ALLOW if shared else rng.choice(apart),
            misfire=Misfire(rng.choice(list(MisfirePolicy)), grace),
            required_capability="exec",
            node_labels=rng.choice([()] * 9 + [(("disk", "ssd"),)]),
            retention=KEEP_ALL,
            queue=rng.choice(["default", "default", *QUEUES]),
            max_concurrency=rng.choice([0, 0, 0, 2]) if shared else 0,
            conditions=self._conditions(),
            notify=self._notify(),
            conditions_timeout_ms=rng.choice([2_000, 8_000, 20_000]),
            expires_ms=rng.choice([0] * 6 + [500, 4_000, 30_000]),
            concurrency=self._limits_by_key(shared),
        )

    def _notify(self) -> tuple[Notify, ...]:
        """Sometimes, once some node knows the webhook."""
        rng = self._rng
        stores = [machine.store for machine in self._world.machines.values() if machine.store is not None]
        if not stores or rng.random() < 0.6:
            return ()
        with rng.choice(stores).read() as view:
            if view.get(Table.WEBHOOKS, WATCHER.encode()) is None:
                return ()
        events = tuple(sorted(MEASURED))
        return (Notify(WATCHER, events, rng.randint(1, 3_000), rng.randint(1, 3_000), 150, rng.randint(500, 9_000)),)

    def _limits_by_key(self, shared: bool) -> Concurrency | None:
        """Where runs may overlap not one by one: they would take very long to come to their end."""
        rng = self._rng
        if rng.random() < 0.8:
            return None
        key = "blue" if shared else rng.choice(list(KEYS))
        rate = rng.choice([None, None, rng.randint(2, 5)])
        return Concurrency(key, key, KEYS[key], rate, 1_000 if rate else 0)

    def _conditions(self) -> tuple[Condition, ...]:
        rng = self._rng
        if rng.random() > 0.15:
            return ()
        kinds = rng.sample(list(ConditionKind), rng.choice([1, 1, 2]))
        return tuple(self._condition(kind) for kind in sorted(kinds))

    def _condition(self, kind: ConditionKind) -> Condition:
        rng = self._rng
        if kind is not ConditionKind.JOB:
            return Condition(kind, self._world.outside.draw(kind, rng))
        name = rng.choice(self.jobs).name
        return Condition(kind, f"{NAMESPACE}/{name}", within_ms=rng.choice([3_000, 60_000]))

    def _edited(self, policy: Policy) -> Policy:
        trigger = (
            policy.trigger if self._rng.random() < 0.7 else self._with_calendar(self._trigger(once=policy.trigger.once))
        )
        edited = self._policy(trigger, policy.overlap is Overlap.ALLOW)
        # What stays: it could not be said of runs that wait which of the limits by key holds
        edited = msgspec.structs.replace(
            edited, max_concurrency=policy.max_concurrency, concurrency=policy.concurrency, triggers=policy.triggers
        )
        if policy.triggers:
            several = msgspec.structs.replace(edited, trigger=policy.trigger)
            return several if self._rng.random() < 0.6 else self._with_several(several)
        return edited

    def _body(self) -> bytes:
        """What a run does: see keepers.py."""
        rng, long_s = self._rng, self._world.profile.run_s
        most = rng.choice([0.3, 1.0, long_s, long_s])
        does = {
            "takes": [0.005, most],
            "fails": rng.choice([0.0, 0.0, 0.3, 0.9]),
            "stubborn": rng.choice([0.0, 0.5]),
            "n": rng.getrandbits(32),
        }
        return json.dumps({"handler": {"exec": ["job", json.dumps(does)]}}).encode()

    # ------------------------------------------------------------ answers

    def done(self, command: c.Command, answer: c.Accepted) -> None:
        if isinstance(command, c.RunNow) and answer.instance is not None:
            self.instances.append(answer.instance)
            self._world.promised.add(answer.instance)


class JobClients(Clients):
    world: JobsWorld

    def make_client(self, number: int, rng: random.Random) -> JobClient:
        return JobClient(self, number, rng)
