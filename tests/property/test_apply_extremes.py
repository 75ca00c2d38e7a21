"""Any command with any of its values replaced by an extreme of its type: apply does not raise, and one log gives the
same state however it is cut into turns. What raises in apply stops every node, at once and at each start.

Of a command that fits the state each field is tried with each extreme, on a copy of the state; one of the variants now
and then becomes part of the log, so that what comes later meets it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from raftsched.core.apply import Applier, apply_entry
from raftsched.core.commands import UNDECODABLE, Accepted, Command, CreateJob, RaiseLevel, check, encode
from raftsched.core.entry import EntryResult, encode_entry
from raftsched.core.levels import newest_level
from raftsched.core.model import Misfire, MisfirePolicy, Trigger, TriggerKind
from raftsched.core.rows import decode_job
from raftsched.core.tables import Table
from tests.property.author import Author
from tests.support.amounts import examples
from tests.support.memory_view import T0, MemoryView

LOGS = 15
INTS = (2**64 - 1, 2**63, 2**63 - 1, 2**53 + 1, 2**43 + 1, 0, -1, -(2**63))
TEXTS = ("", "\0", "a/b", "x" * 129, "x" * 512, "_webhooks.h", "_system", "\U0010ffff" * 128)
DEEP = b"[" * 3_000
BYTES = (
    b"",
    b"\0",
    b"\xff" * 8,
    b"\xff" * 24,
    b"\xff" * 32,
    b"x" * 512,
    b"x" * 20_000,
    b'{"labels":{"' + b"a" * 300 + b'":"' + b"b" * 600 + b'"},"owner":"' + b"o" * 700 + b'"}',
    b'{"params":{"$secret":"' + b"x" * 600 + b'"}}',
    b'{"handler":{"env":{"$secret":"pw","A":{"$secret":"d/"}}}}',
    b"\xff\xfe",
    b'{"$secret"' + DEEP,
    b'{"labels":' + DEEP,
)
EXTREMES: dict[type, tuple[Any, ...]] = {
    inspect.NoneType: (None,),
    inspect.IntType: INTS,
    inspect.StrType: TEXTS,
    inspect.BytesType: BYTES,
    inspect.BoolType: (False, True),
}


def extremes(kind: Any, was: Any) -> Iterator[Any]:
    """Values of this type in the place of `was`."""
    match kind:
        case inspect.UnionType():
            for one in kind.types:
                yield from extremes(one, was)
        case inspect.EnumType():
            yield from kind.cls
        case inspect.VarTupleType() | inspect.ListType():
            as_it_is = tuple if isinstance(kind, inspect.VarTupleType) else list
            rest = list(was or ())[1:]
            yield as_it_is(())
            for first in extremes(kind.item_type, was[0] if was else None):
                yield as_it_is((first, *rest))
                yield as_it_is((first,) * 40)
        case inspect.TupleType():
            for position, one in enumerate(kind.item_types):
                like = [next(extremes(k, None)) for k in kind.item_types] if was is None else list(was)
                for value in extremes(one, None if was is None else was[position]):
                    like[position] = value
                    yield tuple(like)
        case inspect.StructType():
            if not isinstance(was, kind.cls):
                was = kind.cls(**{f.name: next(extremes(f.type, None)) for f in kind.fields if f.required})
                yield was
            yield from variants(was)
        case _:
            yield from EXTREMES.get(type(kind), ())


def variants(row: Any) -> Iterator[Any]:
    """The row with one value, of its own or further inside, replaced."""
    for field in inspect.type_info(type(row)).fields:  # type: ignore[attr-defined]
        for value in extremes(field.type, getattr(row, field.name)):
            yield msgspec.structs.replace(row, **{field.name: value})


def encoded(command: Command) -> bytes | None:
    """None: it does not get into a log."""
    try:
        raw = encode(command)
        check(raw)
    except (OverflowError, UnicodeEncodeError, *UNDECODABLE):
        return None
    return raw


def is_beyond(command: Command) -> bool:
    """Returns whether it raises the level of the cluster to one that this version does not know. Nobody proposes it
    before all members know it, and apply raises on purpose: a node of an older version ends there."""
    return isinstance(command, RaiseLevel) and command.level > newest_level()


class Fork(MemoryView):
    """Begins as another view is, which stays as it is."""

    def __init__(self, base: MemoryView) -> None:
        self._rows = dict(base._rows)
        self._keys = dict(base._keys)
        self._version = dict(base._version)
        self._own: set[Table] = set()

    def put(self, table: Table, key: bytes, value: bytes) -> None:
        self._take(table)
        super().put(table, key, value)

    def delete(self, table: Table, key: bytes) -> bool:
        self._take(table)
        return super().delete(table, key)

    def _take(self, table: Table) -> None:
        if table not in self._own:
            self._own.add(table)
            self._rows[table], self._keys[table] = dict(self._rows[table]), list(self._keys[table])


class Extremist(Author):
    """Before a command gets into the log, all of its variants are tried now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.tried = 0

    def _asked(self, command: Command) -> Command:
        r = self.random
        if self.log and r.random() < 0.3:
            done = []
            for variant in variants(command):
                raw = encoded(variant)
                if raw is None or is_beyond(variant):
                    continue
                self.tried += 1
                result = self._apply(Fork(self.view), encode_entry(self.now, [(3, 1, [raw])]), variant)
                if isinstance((result.batches[0].answers or [None])[0], Accepted):
                    done.append(variant)
            if done and r.random() < 0.7:
                command = r.choice(done)
        return super()._asked(command)

    def _fire(self) -> Command:
        """Often so late that it counts as missed."""
        command = super()._fire()
        job_id = getattr(command, "job_id", -1)
        raw = self.view.get(Table.JOBS, job_id.to_bytes(8, "big")) if 0 <= job_id < 2**64 else None
        if raw is not None and self.random.random() < 0.5:
            self.now += decode_job(raw).policy.misfire.grace_ms + 1_000
        return command

    def _entry(self, commands: list[Command]) -> None:
        r = self.random
        self.now += r.choice([0, 0, 1, 50, 999, 1_000, 7_000, 40_000, 3_600_000, -5_000])
        if not 0 <= self.now <= 2**44:
            self.now = T0
        self.seq += 1
        now = self.now if r.random() < 0.99 else r.choice([-(2**63), -1, 0, 2**43, 2**43 + 1, 2**64 - 1])
        raws = [raw for command in commands if (raw := encoded(command)) is not None]
        data = encode_entry(now, [(r.choice([1, 1, 2]), self.seq, raws)])
        self.log.append(data)
        self._apply(self.view, data, commands)

    def _create(self) -> Command:
        """Often a calendar job: its fires carry more numbers than others do."""
        command = super()._create()
        assert isinstance(command, CreateJob)
        if self.random.random() < 0.5:
            return command
        trigger = Trigger(kind=TriggerKind.CRON, expr="* * * * *")
        changed = msgspec.structs.replace(command.policy, trigger=trigger, misfire=Misfire(MisfirePolicy.SKIP, 0))
        return msgspec.structs.replace(command, policy=changed)

    def _apply(self, view: MemoryView, data: bytes, shown: Any) -> EntryResult:
        try:
            return apply_entry(view, len(self.log), 1, data)
        except Exception as error:
            raise AssertionError(f"apply raised {error!r} on {shown!r}"[:2_000]) from error


@pytest.mark.slow
def test_no_value_of_any_field_makes_apply_raise() -> None:
    seed = random.SystemRandom().getrandbits(32)
    tried = 0
    for _ in range(examples(LOGS)):
        seed += 1
        print("seed", seed)
        author = Extremist(seed)
        log = author.write(120)
        tried += author.tried
        again, cuts, position = MemoryView(), random.Random(seed), 0
        while position < len(log):
            applier = Applier(again)
            for _ in range(cuts.choice([1, 3, 20, 200])):
                if position < len(log):
                    position += 1
                    applier.entry(position, 1, log[position - 1])
            applier.close()
        assert again.dump() == author.view.dump()
    print(tried, "values tried")
