"""Applies the lives of jobs in one process, and prints what each step costs as a JSON object.

PYTHONPATH says whose apply it is. It is to run with old versions too, so nothing but the package is imported, and names
are looked for where they were. `time ROUNDS`: microseconds of a job, the least of so many entries of 50 jobs. `count`:
what is executed for an entry of 50 jobs. `floor ROUNDS`: `time`, and what LMDB and msgspec alone take for these rows.

Steps of a life: create, fire (with its assignment to a node), end. A periodic job's run has a full history, of which
the end of each run drops the oldest. The tables are LMDB's, on a real file system, without flushes.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import lmdb
import msgspec

BATCH = 50
ONE_SHOT = ("create", "fire", "end")
PERIODIC = ("periodic-fire", "periodic-end")
FULL = 210  # runs after which a periodic job's history is full
KEPT_OPEN = 20  # rounds of a transaction
START_MS = 1_700_000_000_000
LEAD_MS = 8_000
PERIOD_MS = 60_000
RUN_MS = 40
BODY = b'{"handler":{"python":"raftsched.samples:noop"},"params":{},"trigger":{"in":"8s"}}'


def named(name: str, *modules: str) -> Any:
    """Returns what the first of these modules that has it calls so."""
    for module in modules:
        try:
            found = getattr(importlib.import_module(f"raftsched.{module}"), name, None)
        except ModuleNotFoundError:
            continue
        if found is not None:
            return found
    raise ImportError(f"none of {', '.join(modules)} has {name}")


Applier, encode, encode_entry, instance_key, Outcome, Table, WriteView = (
    named("Applier", "core.apply"), named("encode", "core.commands"), named("encode_entry", "core.entry"),
    named("instance_key", "core.ids"), named("Outcome", "core.model"), named("Table", "core.tables"),
    named("WriteView", "store.view"),
)  # fmt: skip
CLUSTER = ("core.subjects.cluster", "core.cluster", "core.commands")
Placement = named("Placement", "core.model", "core.commands")
CreateJob, Fire, Assign, Ended = (named(name, "core.commands") for name in ("CreateJob", "Fire", "Assign", "Ended"))
Policy, Trigger, TriggerKind = (named(name, "core.model") for name in ("Policy", "Trigger", "TriggerKind"))


def _lasts() -> bool:
    """Whether an applier lasts as long as its transaction, and not for one write batch."""
    try:
        tables = importlib.import_module("raftsched.store.tables").Tables
    except ModuleNotFoundError:
        return False
    return "_applier" in tables._open.__code__.co_names


LASTS = _lasts()
Around = Callable[[str, Callable[[], Any]], Any]


def plainly(step: str, call: Callable[[], Any]) -> Any:
    return call()


class Tables:
    """A cluster's tables with one node that has room for every run. `around` calls what applies each entry; `recorded`
    is told what that asks of the tables."""

    def __init__(self, directory: Path, recorded: Recorded | None) -> None:
        self.around: Around = plainly
        self.now_ms = START_MS
        self._index = 0
        self._env = lmdb.open(str(directory), map_size=1 << 32, max_dbs=128, sync=False)
        self._databases: list[Any] = [None] * (max(Table) + 1)
        for table in Table:
            self._databases[table] = self._env.open_db(b"t%d" % table)
        self._recorded = recorded
        self.begin()
        form, member, leadership, session = (
            named(name, *CLUSTER) for name in ("Form", "Member", "OpenLeadership", "OpenSession")
        )
        self.apply("form", [form(b"c" * 16, (member("n1", "n1:1", b"s" * 8),)), leadership(1, "n1")])
        (opened,) = self.apply("form", [session("n1", 0, "boot", b"n" * 16, 10_000)])
        self.session = opened.number

    def begin(self) -> None:
        self._txn = self._env.begin(write=True)
        txn = self._txn if self._recorded is None else Watched(self._recorded, self._txn)
        self._view = WriteView(txn, self._databases)
        self._applier = Applier(self._view) if LASTS else None

    def tables(self) -> dict[int, Any]:
        """Returns the table of each database, by its id."""
        return {id(self._databases[table]): table for table in Table}

    def commit(self) -> None:
        del self._applier, self._view
        self._txn.commit()

    def apply(self, step: str, commands: Sequence[Any]) -> Any:
        """Returns the answers of an entry of these commands, none of which may be refused."""
        self._index += 1
        data = encode_entry(self.now_ms, [(1, self._index, [encode(command) for command in commands])])

        def call() -> Any:
            applier = self._applier or Applier(self._view)
            result = applier.entry(self._index, 1, data)
            applier.close()
            return result

        answers = self.around(step, call).batches[0].answers
        assert all(type(answer).__name__ == "Accepted" for answer in answers), answers
        return answers

    def run(self, due: Sequence[tuple[int, int]], fire: str, end: str) -> Any:
        """Fires, assigns and ends a run of each (job, due time). Returns the answers of the first."""
        commands = []
        for job, due_ms in due:
            commands += [Fire(job, 1, due_ms)]
            commands += [Assign(instance_key(due_ms, job), self.session, Placement(1, 10_000_000, 1, 1))]
        fired = self.apply(fire, commands)
        tokens = [answer.number for answer in fired[1::2]]
        self.now_ms += RUN_MS
        self.apply(end, [self._ended(token) for token in tokens])
        return fired

    def _ended(self, token: int) -> Any:
        return Ended(self.session, token, Outcome.SUCCEEDED, self.now_ms - 30, self.now_ms, 0)


def one_shots(tables: Tables) -> Iterator[None]:
    """Yields behind each round of lives: created, fired, ended."""
    while True:
        tables.now_ms += 10
        due_ms = tables.now_ms + LEAD_MS
        policy = Policy(trigger=Trigger(kind=TriggerKind.AT, at_ms=due_ms))
        created = tables.apply("create", [CreateJob("default", None, policy, BODY) for _ in range(BATCH)])
        tables.now_ms = due_ms
        tables.run([(answer.job.id, due_ms) for answer in created], "fire", "end")
        yield


def periodic_runs(tables: Tables) -> Iterator[None]:
    """Yields behind each round of runs of the same jobs, `every 1m`, once their history is full."""
    policy = Policy(trigger=Trigger(kind=TriggerKind.EVERY, period_ms=PERIOD_MS))
    around, tables.around = tables.around, plainly
    created = tables.apply("create", [CreateJob("default", f"job{i}", policy, BODY) for i in range(BATCH)])
    due = {answer.job.id: answer.job.nominal_at_ms for answer in created}
    first = tables.now_ms
    for number in range(sys.maxsize):
        if number == FULL:
            tables.around = around
        tables.now_ms = first + (number + 1) * PERIOD_MS
        answers = tables.run(list(due.items()), *PERIODIC)
        due = {answer.job.id: answer.job.nominal_at_ms for answer in answers[::2]}
        if number % KEPT_OPEN == 0:
            tables.commit()
            tables.begin()
        if number >= FULL:
            yield


class Times:
    """The least time of each step."""

    def __init__(self) -> None:
        self.least: dict[str, float] = {}

    def __call__(self, step: str, call: Callable[[], Any]) -> Any:
        begin = time.thread_time()
        result = call()
        self.add(step, time.thread_time() - begin)
        return result

    def add(self, step: str, seconds: float) -> None:
        self.least[step] = min(self.least.get(step, seconds), seconds)


class Counts:
    """What each step executes: opcodes of Python, or calls of C functions. One of these a round, for looking at one
    changes the other."""

    def __init__(self) -> None:
        self.found: dict[str, Counter[str]] = {}
        self.count = _opcodes

    def __call__(self, step: str, call: Callable[[], Any]) -> Any:
        return self.count(self.found.setdefault(step, Counter()), call)


def _opcodes(counts: Counter[str], call: Callable[[], Any]) -> Any:
    total = 0

    def opcode(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal total
        total += event == "opcode"
        return opcode

    def entered(frame: FrameType, event: str, arg: object) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return opcode

    sys.settrace(entered)
    try:
        return call()
    finally:
        sys.settrace(None)
        counts["opcodes"] = total


def _c_calls(counts: Counter[str], call: Callable[[], Any]) -> Any:
    total = 0

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal total
        total += event == "c_call"

    sys.setprofile(called)
    try:
        return call()
    finally:
        sys.setprofile(None)
        counts["C calls"] = total


class Recorded:
    """What each step asks of LMDB: (get, put or delete; database; key; value that was read or written)."""

    def __init__(self) -> None:
        self.asked: dict[str, list[tuple[str, Any, bytes, bytes | None]]] = {}
        self._step: list[tuple[str, Any, bytes, bytes | None]] = []

    def __call__(self, step: str, call: Callable[[], Any]) -> Any:
        self._step = self.asked[step] = []
        result = call()
        self._step = []  # what no step asks is kept nowhere
        return result

    def add(self, name: str, database: Any, key: bytes, value: bytes | None) -> None:
        self._step.append((name, database, key, value))

    def counts(self, step: str) -> Counter[str]:
        """Returns the rows of a step, and their bytes."""
        found: Counter[str] = Counter()
        for name, _, key, value in self.asked[step]:
            found[f"rows {name}"] += 1
            if name != "delete":
                found[f"bytes {name}"] += len(key) + len(value or b"")
        return found


class Watched:
    """A transaction, or a cursor of one database, that tells what is asked of it."""

    def __init__(self, recorded: Recorded, own: Any, database: Any = None) -> None:
        self._recorded = recorded
        self._own = own
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._own.close()

    def cursor(self, db: Any) -> Watched:
        return Watched(self._recorded, self._own.cursor(db), db)

    def get(self, key: bytes, default: Any = None, db: Any = None) -> Any:
        value = self._own.get(key, default, *(() if self._database else (db,)))
        self._recorded.add("get", self._database or db, key, value)
        return value

    def put(self, key: bytes, value: bytes, **options: Any) -> Any:
        self._recorded.add("put", self._database or options["db"], key, value)
        return self._own.put(key, value, **options)

    def delete(self, key: bytes, value: bytes = b"", db: Any = None) -> Any:
        self._recorded.add("delete", db, key, None)
        return self._own.delete(key, value, db)


def floor(asked: Sequence[tuple[str, Any, bytes, bytes | None]], tables: dict[int, Any], rounds: int) -> float:
    """Returns the seconds that LMDB and msgspec alone take for these rows: each is read, written or deleted as it was,
    and each job and instance that was written is decoded once and encoded once. `tables` by the id of the database."""
    decoders = {Table.JOBS: named("decode_job", "core.rows", "core.apply.tx")}
    decoders[Table.INSTANCES] = named("decode_instance", "core.rows", "core.apply.tx")
    encoder = msgspec.msgpack.Encoder().encode
    puts = [(tables[id(database)], value) for name, database, _, value in asked if name == "put"]
    put = [(decoders[table], value) for table, value in puts if table in decoders]
    rows = [decode(value) for decode, value in put]
    times = Times()
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
        env = lmdb.open(directory, map_size=1 << 30, max_dbs=128, sync=False)
        databases = {table: env.open_db(b"t%d" % table) for table in Table}
        plan = [(name, databases[tables[id(database)]], key, value) for name, database, key, value in asked]
        for _ in range(rounds):
            with env.begin(write=True) as txn:
                begin = time.thread_time()
                for name, database, key, value in plan:
                    if name == "put":
                        txn.put(key, value, db=database)
                    elif name == "get":
                        txn.get(key, db=database)
                    else:
                        txn.delete(key, db=database)
                times.add("rows", time.thread_time() - begin)
            times("decoded", lambda: [decode(value) for decode, value in put])
            times("encoded", lambda: [encoder(row) for row in rows])
        env.close()
    return sum(times.least.values())


def turns(around: Around, rounds: int) -> Iterator[tuple[Tables, Tables]]:
    """Yields behind each round of one-shots and of periodic runs, in turns, the tables of both."""
    recorded = around if isinstance(around, Recorded) else None
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
        for name in ("one-shot", "periodic"):
            Path(directory, name).mkdir()
        once, often = (Tables(Path(directory, name), recorded) for name in ("one-shot", "periodic"))
        lives, runs = one_shots(once), periodic_runs(often)
        once.around = often.around = around
        for number in range(rounds):
            if number % KEPT_OPEN == 0:
                once.commit()
                once.begin()
            next(lives)
            next(runs)
            yield once, often


def counted() -> dict[str, Counter[str]]:
    """Returns what each step executes."""
    _opcodes(Counter(), lambda: None)  # Python 3.12 tells of none the first time
    counts, recorded = Counts(), Recorded()
    steps = turns(counts, 3)
    next(steps)  # fills what is filled once
    for counts.count in (_opcodes, _c_calls):
        next(steps)
    for _ in turns(recorded, 2):
        pass
    return {step: found + recorded.counts(step) for step, found in counts.found.items()}


def main() -> None:
    what, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    gc.disable()
    if what == "count":
        print(json.dumps(counted()))
        return
    times, recorded = Times(), Recorded()
    for _ in turns(times, rounds):
        pass
    found: dict[str, Any] = {step: seconds / BATCH * 1e6 for step, seconds in times.least.items()}
    if what == "floor":
        floors: dict[str, float] = {}
        for tables in turns(recorded, 1):
            for step, asked in recorded.asked.items():
                floors[step] = floor(asked, tables[step in PERIODIC].tables(), rounds) / BATCH * 1e6
        found = {"apply": found, "floor": floors}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
