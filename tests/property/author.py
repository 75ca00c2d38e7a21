"""Logs at random, as long and as strange as one wants."""

from __future__ import annotations

import random
from hashlib import sha256
from typing import Any

import msgspec

from raftsched.bounds import DAY_MS, TIME_MAX_MS
from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.apply import apply_entry
from raftsched.core.commands import Command, encode
from raftsched.core.entry import encode_entry
from raftsched.core.ids import instance_key
from raftsched.core.model import AfterOn, JobState, Outcome, Overlap, Policy, Trigger, Verdict
from raftsched.core.rows import (
    META_KEY,
    decode_calendar,
    decode_instance,
    decode_job,
    decode_meta,
    decode_namespace,
    decode_operation,
)
from raftsched.core.rules.filters import JobFilter
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.subjects.access import Grant, Role
from raftsched.core.subjects.backups import NoteBackup
from raftsched.core.subjects.calendar import DeleteCalendar, PutCalendar, RescheduleJob
from raftsched.core.subjects.cluster import Member, NodeRule
from raftsched.core.subjects.namespace import DeleteNamespace, PutNamespace
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE, Notify
from raftsched.core.subjects.operations import BulkAction
from raftsched.core.subjects.secret import DeleteSecret, PutSecret
from raftsched.core.subjects.webhook import (
    DeleteWebhook,
    PutWebhook,
    Receiver,
    ResealWebhook,
    RotateSecret,
    TestWebhook,
    WebhookSpec,
)
from raftsched.core.subjects.zones import MoveJob, SettleZones, TriggerMove, UseZones
from raftsched.core.tables import Table, due_day, from_u64
from tests.property.jobs_at_random import CALENDARS, HOOKS, QUEUES, alike, body, listened_to, notify, policy
from tests.support.invariants import violations
from tests.support.memory_view import NODES, T0, MemoryView


class Author:
    """Writes a log: reads the state it has brought about, and asks for what is possible, and for what is not."""

    def __init__(self, seed: int, *, key: Concurrency | None = None) -> None:
        """`key`: the limit by key of each of its jobs, so that runs often wait for one another."""
        self.random = random.Random(seed)
        self._key_of_all = key
        self.view = MemoryView()
        self.log: list[bytes] = []
        self.now = T0
        self.seq = 0
        self.batches: list[tuple[int, int, list[bytes]]] = []

    def write(self, entries: int) -> list[bytes]:
        members = tuple(Member(n, "h:1", n.encode()) for n in NODES)
        small = Settings(
            queue_all_max=3,
            catch_up_max=4,
            attempts_kept=3,
            active_max=6,
            start_deadline_ms=5_000,
            queues_max=2,
            backfill_max=5,
            namespaces_max=2,
            secrets_max=2,
            namespaces_strict=self.random.choice([0, 0, 0, 1]),
        )
        small = msgspec.structs.replace(
            small,
            steps_kept=self.random.choice([4, 40]),
            idempotency_max=3,
            idempotency_keep_ms=self.random.choice([0, 999, DAY_MS]),
            events_max=self.random.choice([0, 5, 50, 1_000_000]),
            events_keep_ms=self.random.choice([1_000, DAY_MS]),
            audit_max=self.random.choice([0, 3, 1_000]),
            audit_keep_ms=self.random.choice([1_000, DAY_MS]),
            output_max_bytes=self.random.choice([1 << 12, 1 << 20, 256 << 20]),
            output_keep_ms=self.random.choice([3_600_000, 7 * DAY_MS]),
            upgrade_hold=self.random.choice([0, 0, 1]),
            output_copies=self.random.choice([1, 2]),
        )
        self._entry([c.Form(b"x", members), c.OpenLeadership(1, "n1"), c.PutSettings(small)])
        for _ in range(entries):
            commands: list[Command] = []
            for _ in range(self.random.randint(0, 4)):
                command = self._command()
                commands += [self._asked(command), *self._at_once(command)]
            self._entry(commands)
        return self.log

    def _at_once(self, command: Command) -> list[Command]:
        """What is asked for in the same entry about an instance that the command makes, if it does."""
        r = self.random
        if not isinstance(command, c.Fire) or not 0 <= command.nominal_at_ms <= TIME_MAX_MS or r.random() < 0.4:
            return []
        job_id, at_ms = command.job_id, command.nominal_at_ms
        if not 0 <= job_id < 2**64:
            return []
        key = instance_key(at_ms, job_id)
        follows: list[Command] = [
            c.Assign(key, self._session()),
            c.Assign(key, self._session()),
            c.Kill(key),
            c.Backfill(job_id, command.revision, (at_ms,)),
            c.Split(key),
            c.SetJobState(job_id, JobState.EXPIRED, True),
            command,
        ]
        return r.sample(follows, r.randint(1, 3))

    def _asked(self, command: Command) -> Command:
        """Now and then by somebody."""
        r = self.random
        if r.random() < 0.7:
            return command
        raw = msgspec.Raw(encode(command))
        return c.Attributed(
            raw, *r.choice([(0, ""), (7, "ana"), (7, "bo" * 400)]), r.choice(["", "x", "y"]), work=r.random() < 0.4
        )

    def _entry(self, commands: list[Command]) -> None:
        r = self.random
        self.now += r.choice([0, 0, 1, 50, 999, 1_000, 1_001, 7_000, 40_000, 3_600_000, 9 * DAY_MS, -5_000, -DAY_MS])
        self.seq += r.choice([1, 1, 1, 1, 2])
        batches = [(r.choice([1, 1, 2]), self.seq, [encode(x) for x in commands])]
        if self.batches and r.random() < 0.2:
            batches.append(r.choice(self.batches))  # proposed again
        self.batches += batches
        empty = r.random() < 0.03 and self.log  # never the first: without its settings limits come in late
        data = b"" if empty else encode_entry(self.now, batches)
        self.log.append(data)
        apply_entry(self.view, len(self.log), 1, data)
        found = violations(self.view)
        assert not found, f"after entry {len(self.log)} {commands}:\n" + "\n".join(found)

    # ------------------------------------------------------------ references, mostly to what is there

    def _key(self, table: Table) -> bytes:
        rows = [key for key, _ in self.view.scan(table)]
        return self.random.choice(rows) if rows and self.random.random() < 0.95 else b"\0" * 24

    def _job(self) -> int:
        """Seldom one of a webhook: of those nearly everything is refused."""
        r = self.random
        rows = [key for key, raw in self.view.scan(Table.JOBS) if decode_job(raw).namespace != SYSTEM_NAMESPACE]
        return from_u64(r.choice(rows) if rows and r.random() < 0.9 else self._key(Table.JOBS)[:8])

    def _session(self) -> int:
        return from_u64(self._key(Table.SESSIONS)[:8])

    def _epoch(self) -> int:
        return decode_meta(self.view.get(Table.META, META_KEY)).epoch

    def _policy(self) -> Policy:
        found = policy(self.random, self.now)
        return found if self._key_of_all is None else msgspec.structs.replace(found, concurrency=self._key_of_all)

    def _number(self) -> int:
        r = self.random
        return r.choice([-1, 0, 1, 5, 1_000, T0, 2**62, 2**63, 2**64 - 1])

    def _command(self) -> Command:
        r = self.random
        weights = {
            self._fire: 14,
            self._assign: 12,
            self._end: 12,
            self._create: 14,
            self._create_alike: 3,
            self._start: 3,
            self._edit: 4,
            self._state: 4,
            self._resume: 1,
            self._schedule: 6,
            self._zones: 3,
            self._note_backup: 1,
            self._wake: 5,
            self._watch: 5,
            self._wake_key: 4,
            self._run_now: 4,
            self._open: 4,
            self._end_session: 3,
            self._kill: 3,
            self._rerun: 4,
            self._workflow: 2,
            self._dead: 4,
            self._skip: 2,
            self._backfill: 2,
            self._report: 5,
            self._recheck: 2,
            self._split: 8,
            self._prune: 4,
            self._promote_due: 2,
            self._delete: 1,
            self._queue: 3,
            self._sort: 3,
            self._node_rule: 2,
            self._namespace: 2,
            self._secret: 2,
            self._bulk: 2,
            self._calendar: 3,
            self._step: 4,
            self._token: 3,
            self._webhook: 10,
            self._other: 1,
        }
        command = r.choices(list(weights), list(weights.values()))[0]()
        if r.random() < 0.05:  # as a user would send it, or nobody
            key, digest = self._named()
            return r.choice(
                [c.StoredResponse(key, digest, b"answer"), *[c.Idempotent(key, digest, encode(command))] * 4]
            )
        return command

    def _who_is_told(self) -> tuple[Notify, ...]:
        """Now and then a webhook that is there, of anything."""
        known = [key.decode() for key, _ in self.view.scan(Table.WEBHOOKS) if key.decode() in HOOKS]
        if not known or self.random.random() < 0.5:
            return ()
        return (msgspec.structs.replace(notify(self.random)[0], webhook=self.random.choice(known)),)

    def _following(self, trigger: Trigger) -> Trigger:
        """Now and then a trigger that follows jobs that are there, where it follows any."""
        r = self.random
        known = [key.decode().replace("\0", "/") for key, _ in self.view.scan(Table.NAMES)]
        known = [name for name in known if not name.startswith(SYSTEM_NAMESPACE) and len(name) < 100]
        if trigger.after is None or not known or r.random() < 0.3:
            return trigger
        names = [r.choice(known), *r.choice([(), ("d/never",), ("d/never",)])]
        on = r.choice([trigger.after.on, AfterOn.ENDED])
        return msgspec.structs.replace(trigger, after=msgspec.structs.replace(trigger.after, jobs=tuple(names), on=on))

    def _create(self) -> c.CreateJob:
        """Mostly a job that needs nothing which may not be there."""
        r = self.random
        if r.random() < 0.7:
            plain = self._policy()
            plain = msgspec.structs.replace(
                plain,
                conditions=(),
                notify=self._who_is_told(),
                overlap=r.choice([plain.overlap, Overlap.ALLOW]),
                trigger=self._following(msgspec.structs.replace(plain.trigger, calendar=None, calendar_moves=False)),
                triggers=tuple(
                    msgspec.structs.replace(one, calendar=None, calendar_moves=False) for one in plain.triggers
                ),
            )
            return c.CreateJob(r.choice(["d", "default"]), r.choice([None, None, "a", "b", "e"]), plain, b"{}")
        name = r.choice([None, "a", "b", "c", "x" * 600])
        return c.CreateJob(
            r.choice(["d", "d", "d", "default", "default", SYSTEM_NAMESPACE]),
            name,
            self._policy(),
            body(r),
            r.random() < 0.2,
            r.random() < 0.5,
            r.random() < 0.2,
            *(named := self._named() if r.random() < 0.3 else (b"", b"")),
            r.choice([None, None, 0, 1, 2, 3, 511, 512, -1]) if named[0] else None,
            r.choice([None] * 9 + [0, self._space_revision(), self._space_revision()]),
        )

    def _create_alike(self) -> Command:
        """Jobs that differ in what one command can carry of many; sometimes in nothing."""
        return alike(self._create(), self.random, self.now)

    def _edit(self) -> Command:
        r = self.random
        job_id = self._job()
        raw = self.view.get(Table.JOBS, job_id.to_bytes(8, "big"))
        content = self._policy()
        if raw is not None and r.random() < 0.5:
            was = decode_job(raw).policy
            triggers = tuple(one for one in was.triggers if r.random() < 0.8)  # some of them go
            if triggers and content.triggers and triggers[0].id != content.triggers[-1].id:
                triggers += content.triggers[-1:]
            content = msgspec.structs.replace(
                was, overlap=content.overlap, retention=content.retention, triggers=triggers or was.triggers
            )
        revision, name = r.choice([None, None, 1, 2]), r.choice([None, "a", "b", "e"])
        return c.EditJob(job_id, content, body(r), revision, name, suspended=r.random() < 0.1)

    def _state(self) -> Command:
        r = self.random
        wanted = r.choice([JobState.SCHEDULED, JobState.SUSPENDED, JobState.SCHEDULED, JobState.SUSPENDED, *JobState])
        until = self.now + r.choice([-5, 1_000, 60_000]) if wanted is JobState.SUSPENDED and r.random() < 0.4 else None
        return c.SetJobState(self._job(), wanted, r.random() < 0.3, resume_at_ms=until)

    def _resume(self) -> Command:
        key = self._key(Table.RESUMES)
        at_ms = from_u64(key[:8])
        if self.random.random() < 0.7 and at_ms < TIME_MAX_MS:
            self.now = max(self.now, at_ms)
        return c.ResumeJob(from_u64(key[8:16]), at_ms)

    def _delete(self) -> Command:
        return c.DeleteJob(self._job())

    def _fire(self) -> Command:
        r = self.random
        job_id = from_u64(self._key(Table.DUE)[8:16])
        raw = self.view.get(Table.JOBS, job_id.to_bytes(8, "big"))
        if raw is None:
            return c.Fire(self._number(), 1, self._number())
        job = decode_job(raw)
        nominal = job.nominal_at_ms or 0
        if r.random() < 0.7:  # mostly when it is due; sometimes a leader whose clock is ahead
            self.now = max(self.now, (job.fire_at_ms or 0) + r.choice([0, 0, 3, 5_000, 60_000]))
        revision = job.revision if r.random() < 0.95 else job.revision - 1
        if job.triggers:
            return c.Fire(job_id, revision, nominal, triggers=self._due_triggers(job), zones=self._zones_number())
        if not job.policy.trigger.needs_calendar:
            return c.Fire(job_id, revision, nominal)
        calendar = self._calendar_revision(job)
        if r.random() < 0.05:
            return RescheduleJob(job_id, revision, nominal)
        missed = tuple(nominal + k for k in range(1, r.choice([1, 1, 1, 2, 4, 8])))
        upcoming = r.choice([None, nominal + 60_000, nominal + 60_000, 5])
        count = len(missed) + r.choice([0, 0, 3])
        more = (upcoming, missed, count, None, calendar, r.random() < 0.5)
        return c.Fire(job_id, revision, nominal, *more, zones=self._zones_number())

    def _promote_due(self) -> Command:
        r = self.random
        day = due_day(max(0, self.now)) + r.choice([-1, 0, 0, 1, 1, 2, 20])
        return c.PromoteDue(r.choice([day] * 9 + [self._number()]), r.choice([1, 1, 2, 3, 500, self._number()]))

    def _due_triggers(self, job: Any) -> tuple[c.TriggerFire, ...]:
        """Those that are due, mostly, with what a leader might say of them."""
        r = self.random
        parts = []
        for index, (trigger, state) in enumerate(zip(job.policy.triggers, job.triggers, strict=True)):
            nominal = state.nominal_at_ms
            if nominal is None or (state.fire_at_ms > self.now and r.random() < 0.8):
                continue
            more: tuple[Any, ...] = ()
            if trigger.needs_calendar:
                missed = tuple(nominal + k for k in range(1, r.choice([1, 1, 2, 4])))
                more = (r.choice([None, nominal + 60_000]), missed, len(missed) + r.choice([0, 3]), None)
                more += (self._revision_of(trigger.calendar), r.random() < 0.5)
            parts.append(c.TriggerFire(index, nominal if r.random() < 0.97 else nominal + 1, *more))
        return tuple(parts)

    def _schedule(self) -> Command:
        key = self._key(Table.UNSCHEDULED)
        raw = self.view.get(Table.JOBS, key[:8])
        revision = 1 if raw is None else decode_job(raw).revision
        if raw is not None and decode_job(raw).triggers:
            return self._schedule_triggers(decode_job(raw))
        calendar = 0 if raw is None else self._calendar_revision(decode_job(raw))
        nominal = self.random.choice([None, T0, self.now, self.now + 60_000, self.now + 60_000, self.now + 1])
        nominal = nominal if nominal is None else max(0, nominal)
        never, zones = self.random.random() < 0.5, self._zones_number()
        return c.ScheduleJob(from_u64(key[:8]), revision, nominal, calendar, never, zones=zones)

    def _schedule_triggers(self, job: Any) -> Command:
        r = self.random
        parts = []
        for index, (trigger, state) in enumerate(zip(job.policy.triggers, job.triggers, strict=True)):
            if state.unscheduled_since_ms is not None and r.random() < 0.9:
                since = state.unscheduled_since_ms if r.random() < 0.95 else state.unscheduled_since_ms + 1
                nominal = r.choice([None, since + 1, since + 60_000, since + 60_000])
                calendar = self._revision_of(trigger.calendar)
                parts.append(c.TriggerSchedule(index, since, nominal, calendar, r.random() < 0.5))
        return c.ScheduleJob(job.id, job.revision, None, triggers=tuple(parts), zones=self._zones_number())

    def _zones_number(self) -> int:
        """Mostly that of now."""
        now = decode_meta(self.view.get(Table.META, META_KEY)).zones
        return self.random.choice([now] * 19 + [now + 1])

    def _note_backup(self) -> Command:
        r = self.random
        return NoteBackup(len(self.log) - r.choice([0, 1, 1, 5]), self.now - r.choice([0, 0, 1_000, -1_000]))

    def _zones(self) -> Command:
        r = self.random
        number = self._zones_number()
        if r.random() < 0.2:
            return UseZones(r.choice(["2025a a", "2025a b", "2025b a", "", "x" * 65]), number)
        if r.random() < 0.2:
            return SettleZones(number, r.choice([b"", b"{}"]))
        raw = self.view.get(Table.JOBS, self._key(Table.DUE)[8:16])
        if raw is None:
            return MoveJob(self._job(), 1, number, None, self._number())
        job = decode_job(raw)
        revision = job.revision if r.random() < 0.95 else job.revision - 1
        nominal = job.nominal_at_ms if r.random() < 0.95 else None
        upcoming = r.choice([None, self.now, self.now + 60_000, self.now + 60_000])
        upcoming = upcoming if upcoming is None else max(0, upcoming)
        if not job.triggers:
            return MoveJob(job.id, revision, number, nominal, upcoming, self._calendar_revision(job), r.random() < 0.5)
        parts = tuple(
            TriggerMove(index, state.nominal_at_ms, upcoming, self._revision_of(trigger.calendar), r.random() < 0.5)
            for index, (trigger, state) in enumerate(zip(job.policy.triggers, job.triggers, strict=True))
            if r.random() < 0.7
        )
        return MoveJob(job.id, revision, number, nominal, None, triggers=parts)

    def _calendar_revision(self, job: Any) -> int:
        return self._revision_of(job.policy.trigger.calendar)

    def _revision_of(self, name: str | None) -> int:
        """Mostly that of now."""
        raw = self.view.get(Table.CALENDARS, (name or "").encode() or b"-")
        now = 0 if raw is None else decode_calendar(raw).revision
        return self.random.choice([now] * 9 + [now + 1])

    def _calendar(self) -> Command:
        r = self.random
        name = r.choice([*CALENDARS, *CALENDARS, "", "x" * 129])
        condition = r.choice([None, None, None, 1, 2])
        if r.random() < 0.3:
            return DeleteCalendar(name, condition)
        return PutCalendar(
            name,
            r.choice([b"{}", b'{"hours":[{"from":"22:00","to":"06:00"}]}', b"x" * 70_000]),
            condition,
            r.random() < 0.1,
        )

    def _run_now(self) -> Command:
        r = self.random
        return c.RunNow(
            self._job(),
            r.choice([1, 2, 3, r.getrandbits(64)]),
            r.choice([None, None, None, b'{"t":"k"}', b'{"t":2}', b"{}", b"["]),
            r.choice([None, 0, 9, 11]),
            *self._named(),
        )

    def _skip(self) -> Command:
        job_id = from_u64(self._key(Table.DUE)[8:16])
        raw = self.view.get(Table.JOBS, job_id.to_bytes(8, "big"))
        nominal = None if raw is None else decode_job(raw).nominal_at_ms
        r = self.random
        return c.SkipNext(job_id, self._number() if nominal is None or r.random() < 0.1 else nominal)

    def _backfill(self) -> Command:
        r = self.random
        job_id = self._job()
        raw = self.view.get(Table.JOBS, job_id.to_bytes(8, "big"))
        first = self.now + r.choice([-DAY_MS, -5_000, -1_000, 0, 1_000])
        times = tuple(first + k * 1_000 for k in range(r.choice([0, 1, 2, 4, 9])))
        if r.random() < 0.1:
            times = (self._number(), self._number())
        revision = 1 if raw is None or r.random() < 0.1 else decode_job(raw).revision
        return c.Backfill(job_id, revision, times, *self._named())

    def _named(self) -> tuple[bytes, bytes]:
        """An Idempotency-Key, mostly none, and what goes with it."""
        r = self.random
        key = r.choice([b"", b"", b"", *(bytes((i,)) * 32 for i in range(5)), b"x"])
        return key, r.choice([b"d" * 32, b"d" * 32, b"e" * 32, b""]) if key else b""

    def _assign(self) -> Command:
        table = Table.READY if self.random.random() < 0.9 else Table.INSTANCES
        return c.Assign(self._key(table)[-24:], self._session())

    def _start(self) -> Command:
        session, token = self._live()
        return c.Started(session, token, self.now)

    def _end(self) -> Command:
        r = self.random
        session, token = self._live()
        if r.random() < 0.15:
            return c.ReportProgress(session, token, self._said())
        outcome = r.choice([Outcome.SUCCEEDED, Outcome.SUCCEEDED, Outcome.FAILED, *Outcome])
        result = r.choice([None, None, b'{"status":200}', b'{"status":410}'])
        ended = c.Ended(
            session,
            token,
            outcome,
            r.choice([None, self.now]),
            self.now,
            r.choice([None, 0, 3, 75, -9]),
            "e",
            result,
            begun=r.random() < 0.8,
        )
        if r.random() < 0.6:
            return ended
        verdict = r.choice([None, *Verdict])
        delay_ms = r.choice([None, 0, 5_000, -1, 2**62])
        more = {"verdict": verdict, "delay_ms": delay_ms, "said": r.choice([None, self._said()])}
        return c.EndedWithReport(**msgspec.structs.asdict(ended) | more)

    def _said(self) -> c.SelfReport:
        r = self.random
        kept = r.choice([None, b"1", b"null", b"", b"{", b"x" * 5_000])
        return c.SelfReport(r.choice([None, 0, 50, -1, 2**62]), r.choice([None, "", "copying", "x" * 500]), kept)

    def _live(self) -> tuple[int, int]:
        r = self.random
        key = self._key(Table.ASSIGNED)
        session, token = from_u64(key[:8]), from_u64(key[8:16])
        return r.choices([(session, token), (session, token - 1), (session + 1, token)], [12, 1, 1])[0]

    def _wake(self) -> Command:
        key = self._key(Table.TIMERS)[-24:]
        raw = self.view.get(Table.INSTANCES, key)
        at = None if raw is None else decode_instance(raw).wake_at_ms
        return c.Wake(key, self._number() if at is None else at)

    def _watch(self) -> Command:
        key = self._key(Table.WATCHES)
        at_ms, about = from_u64(key[:8]), key[8:]
        return self.random.choice([*[c.Watch(about, at_ms)] * 6, c.Watch(about, at_ms + 1), c.Watch(key[:9], at_ms)])

    def _wake_key(self) -> Command:
        row = self._key(Table.KEY_TIMERS)
        at_ms = from_u64(row[:8])
        if self.random.random() < 0.8:
            self.now = max(self.now, min(at_ms, self.now + DAY_MS))
        return c.WakeKey(row[8:], at_ms if self.random.random() < 0.95 else self._number())

    def _kill(self) -> Command:
        return c.Kill(self._key(Table.INSTANCES))

    def _rerun(self) -> Command:
        allowed = self.random.choice([None, None, ("default",)])
        return c.Rerun(self._key(Table.INSTANCES), *self._named(), self.random.random() < 0.3, allowed)

    def _workflow(self) -> Command:
        r = self.random
        key = self._key(r.choice([Table.WORKFLOWS, Table.WORKFLOWS, Table.INSTANCES]))
        allowed = r.choice([None, None, ("default",)])
        return c.KillWorkflow(key[:24], r.choice([b"", b"", b"", key[-24:], b"x"]), allowed)

    def _dead(self) -> Command:
        r = self.random
        key = self._key(r.choice([Table.DEAD, Table.DEAD, Table.INSTANCES]))[-24:]
        return r.choice([c.Requeue, c.Requeue, c.Discard])(key)

    def _report(self) -> Command:
        r = self.random
        checking = [i for _, raw in self.view.scan(Table.INSTANCES) if (i := decode_instance(raw)).checking]
        if not checking or r.random() < 0.1:
            return c.ReportConditions(self._key(Table.INSTANCES), self._number(), "n2", True)
        row = r.choice(checking)
        until = r.choice([row.checks_end_at_ms, row.checks_end_at_ms, row.checks_end_at_ms, self._number()]) or 0
        detail = r.choice([None, "no file", "x" * 5_000])
        return c.ReportConditions(row.key, until, r.choice([*NODES, *NODES, ""]), r.random() < 0.8, detail)

    def _recheck(self) -> Command:
        return c.Recheck(self._key(Table.READY)[-24:])

    def _split(self) -> Command:
        r = self.random
        return c.Split(self._key(Table.READY)[-24:], r.choice([("n1", "n2", "n3"), ("n2",), ("n2", "worker/w"), ()]))

    def _prune(self) -> Command:
        r = self.random
        return c.Prune(self.now + r.choice([0, 0, DAY_MS, -1]), r.choice([1, 3, 100, 1_000]))

    def _queue(self) -> Command:
        r = self.random
        name = r.choice([*QUEUES, *QUEUES, "", "x" * 600])
        if r.random() < 0.3:
            return c.DeleteQueue(name, self._revision())
        rate = r.choice([None, None, 1, 3, 0, 2_000_000])
        paused, revision = r.random() < 0.1, self._revision()
        most, period = r.choice([None, 1, 2, 0]), r.choice([1_000, 60_000, 5])
        return c.PutQueue(name, most, rate, period, paused, if_revision=revision)

    def _revision(self) -> int | None:
        return self.random.choice([None, None, None, 0, 1, 3])

    def _sort(self) -> Command:
        r = self.random
        table = Table.READY if r.random() < 0.9 else Table.INSTANCES
        if r.random() < 0.5:
            return c.NoteUnplaceable(self._key(table)[-24:], r.choice(["label disk=ssd", "label disk=hdd"]))
        return c.SortReady(tuple(self._key(table)[-24:] for _ in range(r.randint(0, 5))))

    def _open(self) -> Command:
        r = self.random
        node = r.choice([*NODES, "n4"])
        raw = self.view.get(Table.NODES, node.encode())
        newest = 0 if raw is None else from_u64(raw)
        return c.OpenSession(node, newest if r.random() < 0.9 else newest + 1, r.choice("AAB"), b"", 4)

    def _end_session(self) -> Command:
        if self.random.random() < 0.5:
            return c.EndSession(self._session(), self._epoch() + self.random.choice([0, 0, 0, 1]))
        session, token = self._live()
        if self.random.random() < 0.5:
            return c.LoseAttempt(session, token, self.now, self.random.choice([None, self.now]), "why")
        return c.CloseSession(session, self.random.choice([(), (token,), (token, -1)]))

    def _bulk(self) -> Command:
        r = self.random
        action = r.choice([BulkAction.DELETE, *[a for a in BulkAction if a is not BulkAction.DELETE] * 3])
        kill = r.random() < 0.2
        if r.random() < 0.3:
            ids = tuple(r.choice([self._job(), self._job(), self._number()]) for _ in range(r.randint(0, 4)))
            return c.StartOperation(action, None, ids, kill, *self._named())
        wanted = JobFilter(
            namespace=r.choice([None, None, "d", "default", "x" * 5_000]),
            name_prefix=r.choice([None, None, "a", "", "x" * 600]),
            states=r.choice([(), (), (JobState.SUSPENDED,), (JobState.SCHEDULED, JobState.NEW)]),
            owner=r.choice([None, None, None, "ana"]),
            labels=r.choice([(), (), (), (("a", "1"),)]),
            queue=r.choice([None, None, None, "q"]),
            created_from_ms=r.choice([None, None, T0, self.now, -1]),
            next_to_ms=r.choice([None, None, None, max(0, self.now)]),
        )
        until = self.now + 5_000 if r.random() < 0.2 else None
        return c.StartOperation(action, wanted, (), kill, *self._named(), resume_at_ms=until)

    def _step(self) -> Command:
        r = self.random
        key = self._key(r.choice([Table.OPERATIONS_RUNNING, Table.OPERATIONS_RUNNING, Table.OPERATIONS]))
        if r.random() < 0.1:
            return c.CancelOperation(r.choice([from_u64(key[:8]), self._number()]))
        raw = self.view.get(Table.OPERATIONS, key[:8])
        step = 0 if raw is None else decode_operation(raw).steps
        return c.StepOperation(
            from_u64(key[:8]), step + r.choice([0, 0, 0, 1]), r.choice([-1, 1, 2, 50]), r.choice([1, 3])
        )

    def _space_revision(self) -> int:
        raw = self.view.get(Table.NAMESPACES, b"d")
        return 1 if raw is None else decode_namespace(raw).revision

    def _namespace(self) -> Command:
        r = self.random
        name = r.choice(["d", "d", "default", "e", "f", "", "x" * 600, "a\0b"])
        revision = r.choice([None, None, None, 0, self._space_revision()])
        if r.random() < 0.3:
            return DeleteNamespace(name, revision)
        most = r.choice([None, None, 0, 1, 3, -1])
        return PutNamespace(
            name,
            r.choice([b"{}", b'{"owner":"ana"}', b"x" * 20_000]),
            most,
            revision,
            r.random() < 0.2,
            r.choice([None, None, 1, 2, 0]),
            r.choice([None, None, 1, 60, -1]),
            r.choice([None, None, None, 1 << 20, 1 << 30, 5]),
            r.choice([None, None, None, 1 << 12, 1 << 20, 5]),
            r.choice([None, None, None, DAY_MS, 30 * DAY_MS, 5]),
            r.choice([None, None, None, 1, 2, 3]),
        )

    def _secret(self) -> Command:
        r = self.random
        namespace = r.choice(["d", "d", "default", "e", "", "x" * 600])
        name = r.choice(["pw", "pw", "other", "", "a/b", "x" * 600])
        revision = r.choice([None, None, None, 1, self._number()])
        if r.random() < 0.3:
            return DeleteSecret(namespace, name, revision, r.random() < 0.3)
        sealed = r.choice([(b"", b""), (b"n" * 20, b"same"), (b"n" * 20, b"other"), (b"n" * 99, b"")])
        value = r.choice([b"v", b"w", b"x" * 10_000])
        shared = r.choice([None, True, False])
        return PutSecret(namespace, name, value, *sealed, shared, revision, r.random() < 0.1)

    def _node_rule(self) -> Command:
        r = self.random
        if r.random() < 0.2:
            return c.PauseCluster(r.random() < 0.2)  # seldom: little happens while it is paused
        labels = r.choice([None, (), (("zone", "b"), ("disk", "ssd")), (("disk", "a"), ("disk", "b")), (("", "x"),)])
        was = r.choice([None, None, NodeRule(), NodeRule(drained=True)])
        slots = r.choice([None, None, 1, 0])
        if r.random() < 0.3:
            return c.NoteDisk(r.choice([*NODES, "n4", "x" * 600]), r.random() < 0.5)
        return c.PutNodeRule(r.choice([*NODES, "n4"]), r.random() < 0.1, slots, labels, was, self._revision())

    def _token(self) -> Command:
        r = self.random
        if r.random() < 0.2:
            secret = r.choice([b"", b"s" * 32, b"t" * 32])
            admin = r.choice([b"", b"", b"d" * 31, *(bytes((n,)) * 32 for n in range(5))])
            return c.SetAccess(r.random() < 0.7, secret, None, r.choice(["t1", "t2", ""]), admin, r.random() < 0.5)
        if r.random() < 0.03:
            return c.ForgetSecrets()
        if r.random() < 0.1:
            return c.SetOidc(r.choice([b"", b"{}", b"{1}", b"x" * 70_000]), r.choice([None, None, 0, 1, 2]))
        if r.random() < 0.4:
            return c.RevokeToken(r.choice([from_u64(self._key(Table.TOKEN_IDS)[:8]), self._number()]))
        namespaces = r.choice([None, None, ("d",), ("d", "d", "a"), (), ("x" * 100,)])
        expires = r.choice([None, None, self.now + 5_000, -1])
        if r.random() < 0.2:
            queues = r.choice([None, ("q",), ("q", "q", "a"), (), ("x" * 200,)])
            return c.CreateWorkerToken(
                r.choice(["w", "a", ""]), bytes((r.randrange(6),)) * 32, queues, namespaces, expires
            )
        return c.CreateToken(
            r.choice(["a", "b", "c", "", "x" * 100]),
            r.choice(list(Role)),
            bytes((r.randrange(6),)) * 32,
            namespaces,
            expires,
            r.choice([(), (), (Grant("w", Role.EDITOR), Grant("d", Role.OPERATOR)), (Grant("", Role.ADMIN),) * 2]),
        )

    def _webhook(self) -> Command:
        r = self.random
        name = r.choice([*HOOKS, *HOOKS, *HOOKS, *HOOKS, "", "x" * 600])
        revision = r.choice([None, None, None, None, None, 1])
        spec = WebhookSpec(
            url=r.choice([*["http://h/", "https://h/a?b=c", "http://h/2"] * 4, "ftp://h", ""]),
            on=listened_to(r),
            namespace=r.choice([None, None, None, None, "d", "default", SYSTEM_NAMESPACE]),
            owner=r.choice([None, None, None, "ana"]),
            labels=r.choice([(), (), (("a", "1"),)]),
            queue=r.choice([None, None, None, "q"]),
            active=r.random() < 0.9,
            delays_ms=r.choice([(), (0,), (1_000, 5_000, 60_000)]),
            max_running=r.choice([1, 2, 4, 4, 4, 4, 4, 0]),
            receiver=r.choice([*[Receiver.WEBHOOK] * 5, Receiver.SLACK]),
            page=r.choice(["", "", "https://p/", "p"]),
        )
        secret = r.choice([*[b"s" * 24] * 6, b"t" * 32, b"", b"u"])
        flags = (r.random() < 0.8, r.random() < 0.2, r.random() < 0.2)
        rotation = r.choice([b"s" * 24, b"v" * 64]), r.choice([0, 1_000, -1])
        sealed = r.choice([(b"", b""), (b"", b""), (b"n" * 20, b"same"), (b"n" * 99, b"")])
        chosen: list[Command] = [
            PutWebhook(name, spec, secret, *flags, revision, b"", *sealed),
            RotateSecret(name, *rotation, revision, b"", *sealed),
            TestWebhook(name),
            DeleteWebhook(name, revision),
            self._reseal(name),
        ]
        return r.choices(chosen, [6, 1, 1, 1, 1])[0]

    def _reseal(self, name: str) -> Command:
        r = self.random
        row = (name in HOOKS and self.view.get(Table.WEBHOOK_SECRETS, name.encode())) or b""
        previous = r.choice([(b"", b""), (b"p" * 40, b"n" * 20), (b"p", b"")])
        was = r.choice([sha256(row).digest()] * 3 + [b"other"])
        return ResealWebhook(name, was, r.choice([b"r" * 48, b"r" * 48, b""]), b"n" * 20, b"anew", *previous)

    def _other(self) -> Command:
        return self.random.choice(
            [
                c.Barrier(),
                c.Form(b"y", ()),
                c.OpenLeadership(1, "n2"),
                c.OpenLeadership(self._epoch() + 1, self.random.choice(NODES)),
                c.PutSettings(Settings(catch_up_max=0)),
                c.PutSettings(Settings(), Settings()),
                c.PutSettings(Settings(catch_up_max=3), None, 0),
                c.RaiseLevel(self.random.choice([-1, 0, 3, 4])),
            ]
        )
