"""The replicated tables in memory, and a small world around them: a log, a virtual clock, commands in, answers out."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from raftsched.cluster_settings import Settings
from raftsched.core import commands as c
from raftsched.core.actions import Action, AttemptEnded
from raftsched.core.apply import Applier, apply_entry
from raftsched.core.commands import Accepted, Answer, Assign, Command, CreateJob, Ended, Fire, encode
from raftsched.core.entry import EntryResult, encode_configuration, encode_entry
from raftsched.core.levels import newest_level
from raftsched.core.model import Instance, InstanceState, Job, Outcome, Policy, Trigger, TriggerKind
from raftsched.core.rows import decode_instance, decode_job, decode_meta, decode_session
from raftsched.core.subjects.cluster import Member, Meta, Session
from raftsched.core.tables import KEY_MAX, Table, u64
from tests.support.invariants import violations

T0 = 1_763_600_400_000
NODES = ("n1", "n2", "n3")


class MemoryView:
    """core.tables.View with LMDB's rules about keys, and one more: nobody writes a table while walking it."""

    def __init__(self) -> None:
        self._rows: dict[Table, dict[bytes, bytes]] = {table: {} for table in Table}
        self._keys: dict[Table, list[bytes]] = {table: [] for table in Table}
        self._version: dict[Table, int] = dict.fromkeys(Table, 0)

    def get(self, table: Table, key: bytes) -> bytes | None:
        return self._rows[table].get(_checked(key))

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        rows = self._rows[table]
        if _checked(key) not in rows:
            insort(self._keys[table], key)
        rows[key] = value
        self._version[table] += 1

    def delete(self, table: Table, key: bytes) -> bool:
        if self._rows[table].pop(_checked(key), None) is None:
            return False
        keys = self._keys[table]
        del keys[bisect_left(keys, key)]
        self._version[table] += 1
        return True

    def scan(
        self, table: Table, low: bytes = b"", high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        keys = self._keys[table]
        chosen = keys[bisect_left(keys, low) : len(keys) if high is None else bisect_left(keys, high)]
        version = self._version[table]
        for key in reversed(chosen) if reverse else chosen:
            assert self._version[table] == version, f"{table.name} was written while it was walked"
            yield key, self._rows[table][key]

    def getter(self, table: Table) -> Callable[[bytes], bytes | None]:
        return partial(self.get, table)

    def putter(self, table: Table) -> Callable[[bytes, bytes], object]:
        return partial(self.put, table)

    def first(self, table: Table, low: bytes = b"", high: bytes | None = None) -> tuple[bytes, bytes] | None:
        return next(self.scan(table, low, high), None)

    def count(self, table: Table) -> int:
        return len(self._rows[table])

    def dump(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """Everything, to compare."""
        return {table.name: list(self.scan(table)) for table in Table}


def _checked(key: bytes) -> bytes:
    assert 0 < len(key) <= KEY_MAX, f"LMDB refuses a key of {len(key)} bytes"
    return key


def policy(trigger: Trigger | None = None, **fields: Any) -> Policy:
    return Policy(trigger=trigger or Trigger(kind=TriggerKind.MANUAL), **fields)


class World:
    """A cluster's state without the cluster. Every command goes through its encoding, and all invariants are checked
    after every entry."""

    def __init__(self, view: Any = None, *, now_ms: int = T0, form: bool = True, level: int = newest_level()) -> None:
        """`level`: that the cluster begins with."""
        self.view = view if view is not None else MemoryView()
        self.now = now_ms
        self.index = 0
        self.seq = 0
        self.log: list[bytes] = []
        self.actions: list[Action] = []  # of the newest entry
        if form:
            members = tuple(Member(n, f"{n}:7501", n.encode()) for n in NODES)
            self.do(c.Form(b"cluster", members, level))
            self.do(c.OpenLeadership(1, "n1"))

    # ------------------------------------------------------------ entries

    def run(self, *commands: Command) -> list[Answer]:
        """One entry with one batch."""
        self.seq += 1
        result = self.entry(encode_entry(self.now, [(7, self.seq, [encode(x) for x in commands])]))
        answers = result.batches[0].answers
        assert answers is not None
        return answers

    def members(self, voters: str, learners: str = "") -> EntryResult:
        """A configuration entry; members by name, separated by spaces."""
        names = sorted([*voters.split(), *learners.split()])
        rows = [Member(n, f"{n}:7501", n.encode(), n in voters.split()) for n in names]
        return self.entry(encode_configuration(self.now, rows))

    def entry(self, data: bytes) -> EntryResult:
        self.index += 1
        self.log.append(data)
        result = apply_entry(self.view, self.index, 1, data)
        self.actions = result.actions
        found = violations(self.view)
        assert not found, "\n".join(found)
        return result

    def in_one_batch(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """What a node has that applied the whole log in one turn: it must be the same."""
        view = MemoryView()
        applier = Applier(view)
        for index, data in enumerate(self.log, 1):
            applier.entry(index, 1, data)
        applier.close()
        return view.dump()

    def do(self, command: Command) -> Answer:
        return self.run(command)[0]

    def ok(self, command: Command) -> Accepted:
        answer = self.do(command)
        assert isinstance(answer, Accepted), answer
        return answer

    def refused(self, command: Command) -> str:
        """The code; nothing was changed by it."""
        before = {k: v for k, v in self.view.dump().items() if k not in ("META", "ORIGINS")}
        answer = self.do(command)
        assert isinstance(answer, c.Rejected), answer
        after = {k: v for k, v in self.view.dump().items() if k not in ("META", "ORIGINS")}
        assert after == before
        return answer.code

    def forward(self, ms: int) -> None:
        self.now += ms

    # ------------------------------------------------------------ rows

    @property
    def meta(self) -> Meta:
        return decode_meta(self.view.get(Table.META, b"meta"))

    def find(self, job_id: int) -> Job | None:
        raw = self.view.get(Table.JOBS, u64(job_id))
        return None if raw is None else decode_job(raw)

    def job(self, job_id: int) -> Job:
        job = self.find(job_id)
        assert job is not None
        return job

    def row(self, key: bytes) -> Instance | None:
        raw = self.view.get(Table.INSTANCES, key)
        return None if raw is None else decode_instance(raw)

    def instance(self, key: bytes) -> Instance:
        row = self.row(key)
        assert row is not None
        return row

    def instances(self, job_id: int | None = None) -> list[Instance]:
        """In order of their nominal times."""
        rows = [decode_instance(raw) for _, raw in self.view.scan(Table.INSTANCES)]
        return [r for r in rows if job_id is None or r.job_id == job_id]

    def sessions(self) -> list[Session]:
        return [decode_session(raw) for _, raw in self.view.scan(Table.SESSIONS)]

    def count(self, table: Table) -> int:
        return sum(1 for _ in self.view.scan(table))

    # ------------------------------------------------------------ what the other rooms do

    def settings(self, **fields: Any) -> None:
        self.ok(c.PutSettings(msgspec.structs.replace(self.meta.settings, **fields)))

    def create(
        self,
        trigger: Trigger | None = None,
        *,
        name: str | None = None,
        suspended: bool = False,
        namespace: str = "default",
        **fields: Any,
    ) -> Job:
        answer = self.ok(CreateJob(namespace, name, policy(trigger, **fields), b"{}", suspended=suspended))
        assert answer.job is not None
        assert answer.created
        return answer.job

    def edit(self, job: Job, **fields: Any) -> Job:
        now = self.job(job.id)
        changed = msgspec.structs.replace(now.policy, **fields)
        self.ok(c.EditJob(job.id, changed, now.body, name=now.name))
        return self.job(job.id)

    def session(self, node: str = "n2", *, slots: int = 100, boot: str = "boot") -> int:
        raw = self.view.get(Table.NODES, node.encode())
        replaces = 0 if raw is None else int.from_bytes(raw, "big")
        number = self.ok(c.OpenSession(node, replaces, boot, b"nonce", slots, handlers=("exec",))).number
        assert number is not None
        return number

    def fire(self, job: Job | int, **fields: Any) -> Job:
        """Fires the job at its due time; the clock goes there when it is ahead."""
        row = self.job(job if isinstance(job, int) else job.id)
        assert row.nominal_at_ms is not None
        assert row.fire_at_ms is not None
        self.now = max(self.now, row.fire_at_ms)
        self.ok(Fire(row.id, row.revision, row.nominal_at_ms, **fields))
        return self.job(row.id)

    def assign(self, key: bytes, session: int) -> int:
        """The token."""
        number = self.ok(Assign(key, session)).number
        assert number is not None
        return number

    def end(self, key: bytes, outcome: Outcome = Outcome.SUCCEEDED, **fields: Any) -> Instance:
        live = self.instance(key).live
        assert live is not None
        self.ok(Ended(live.session, live.token, outcome, self.now, self.now, **fields))
        return self.instance(key)

    def run_once(self, key: bytes, session: int, outcome: Outcome = Outcome.SUCCEEDED) -> Instance | None:
        """Assigns and ends at once."""
        token = self.assign(key, session)
        self.ok(Ended(session, token, outcome, self.now, self.now))
        return self.row(key)

    def run_now(self, job: Job, request: int = 1, **fields: Any) -> bytes:
        key = self.ok(c.RunNow(job.id, request, **fields)).instance
        assert key is not None
        return key

    def waiting(self, job_id: int) -> list[Instance]:
        return [r for r in self.instances(job_id) if r.state is InstanceState.WAITING]


def ended(world: World) -> list[tuple[str, int, int, bytes, str]]:
    """(node, session, token, instance, queue) of the attempts that the newest entry ended"""
    actions = [a for a in world.actions if isinstance(a, AttemptEnded)]
    return [(a.node, a.session, a.token, a.instance, a.queue) for a in actions]


def every(period_ms: int, **fields: Any) -> Trigger:
    return Trigger(kind=TriggerKind.EVERY, period_ms=period_ms, **fields)


def at(at_ms: int, **fields: Any) -> Trigger:
    return Trigger(kind=TriggerKind.AT, at_ms=at_ms, **fields)


def after(period_ms: int, **fields: Any) -> Trigger:
    return Trigger(kind=TriggerKind.IN, period_ms=period_ms, **fields)


def cron(expr: str = "* * * * *", **fields: Any) -> Trigger:
    return Trigger(kind=TriggerKind.CRON, expr=expr, **fields)


__all__ = [
    "NODES",
    "T0",
    "MemoryView",
    "Sequence",
    "Settings",
    "World",
    "after",
    "at",
    "cron",
    "every",
    "policy",
]
