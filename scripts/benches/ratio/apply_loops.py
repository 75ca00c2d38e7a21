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
Around = Callable[[str, Callable[[], Any]], Any]


def plainly(step: str, call: Callable[[], Any]) -> Any:
    return call()


class Tables:
    """A cluster's tables with one node that has room for every run. `around` calls what applies each entry."""

    def __init__(self, directory: Path) -> None:
        self.around: Around = plainly
        self.now_ms = START_MS
        self._index = 0
        self._env = lmdb.open(str(directory), map_size=1 << 32, max_dbs=128, sync=False)
        self._databases: list[Any] = [None] * (max(Table) + 1)
        for table in Table:
            self._databases[table] = self._env.open_db(b"t%d" % table)
        self.begin()
        form, member, leadership, session = (
            named(name, *CLUSTER) for name in ("Form", "Member", "OpenLeadership", "OpenSession")
        )
        self.apply("form", [form(b"c" * 16, (member("n1", "n1:1", b"s" * 8),)), leadership(1, "n1")])
        (opened,) = self.apply("form", [session("n1", 0, "boot", b"n" * 16, 10_000)])
        self.session = opened.number

    def begin(self) -> None:
        self._txn = self._env.begin(write=True)
        self._view = WriteView(self._txn, self._databases)

    def commit(self) -> None:
        del self._view
        self._txn.commit()

    def apply(self, step: str, commands: Sequence[Any]) -> Any:
        """Returns the answers of an entry of these commands, none of which may be refused."""
        self._index += 1
        data = encode_entry(self.now_ms, [(1, self._index, [encode(command) for command in commands])])

        def call() -> Any:
            applier = Applier(self._view)
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
    """What each step executes: opcodes of Python, calls of C functions, rows, and bytes of rows. One of these a round,
    for looking at one changes another."""

    def __init__(self) -> None:
        self.found: dict[str, Counter[str]] = {}
        self.what = ""

    def __call__(self, step: str, call: Callable[[], Any]) -> Any:
        counts = self.found.setdefault(step, Counter())
        if self.what == "opcodes":
            return _opcodes(counts, call)
        return _c_calls(counts, call) if self.what == "c-calls" else Recorded(counts)(step, call)


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
    """Keeps what is asked of the tables in a step, and counts it."""

    def __init__(self, counts: Counter[str] | None = None) -> None:
        self.asked: dict[str, list[tuple[str, Any, bytes, bytes | None]]] = {}
        self._counts: Counter[str] = Counter() if counts is None else counts

    def __call__(self, step: str, call: Callable[[], Any]) -> Any:
        asked = self.asked[step] = []
        own = {name: getattr(WriteView, name) for name in ("get", "put", "delete")}

        def recorded(name: str) -> Callable[..., Any]:
            def method(view: Any, table: Any, key: bytes, value: bytes | None = None) -> Any:
                result = own[name](view, table, key, *(() if value is None else (value,)))
                asked.append((name, table, key, result if name == "get" else value))
                return result

            return method

        for name in own:
            setattr(WriteView, name, recorded(name))
        try:
            return call()
        finally:
            for name, method in own.items():
                setattr(WriteView, name, method)
            for name, _, key, value in asked:
                self._counts[f"rows {name}"] += 1
                if name != "delete":
                    self._counts[f"bytes {name}"] += len(key) + len(value or b"")


def floor(asked: Sequence[tuple[str, Any, bytes, bytes | None]], rounds: int) -> float:
    """Returns the seconds that LMDB and msgspec alone take for these rows: each is read, written or deleted as it was,
    and each job and instance that was written is decoded once and encoded once."""
    decoders = {Table.JOBS: named("decode_job", "core.rows", "core.apply.tx")}
    decoders[Table.INSTANCES] = named("decode_instance", "core.rows", "core.apply.tx")
    encoder = msgspec.msgpack.Encoder().encode
    put = [(decoders[table], value) for name, table, _, value in asked if name == "put" and table in decoders]
    rows = [decode(value) for decode, value in put]
    times = Times()
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
        env = lmdb.open(directory, map_size=1 << 30, max_dbs=128, sync=False)
        databases = {table: env.open_db(b"t%d" % table) for table in {table for _, table, _, _ in asked}}
        plan = [(name, databases[table], key, value) for name, table, key, value in asked]
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


def turns(around: Around, rounds: int) -> Iterator[None]:
    """Yields behind each round of one-shots and of periodic runs, in turns."""
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
        for name in ("one-shot", "periodic"):
            Path(directory, name).mkdir()
        once, often = (Tables(Path(directory, name)) for name in ("one-shot", "periodic"))
        lives, runs = one_shots(once), periodic_runs(often)
        once.around = often.around = around
        for number in range(rounds):
            if number % KEPT_OPEN == 0:
                once.commit()
                once.begin()
            next(lives)
            next(runs)
            yield


def main() -> None:
    what, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    gc.disable()
    if what == "count":
        _opcodes(Counter(), lambda: None)  # Python 3.12 tells of none the first time
        counts = Counts()
        kinds = ("", "opcodes", "c-calls", "rows")  # nothing is counted of the first: it fills what is filled once
        counts.what = "rows"
        steps = turns(counts, len(kinds))
        for kind in kinds:
            counts.what = kind or "rows"
            next(steps)
            if not kind:
                counts.found.clear()
        steps.close()  # type: ignore[attr-defined]
        print(json.dumps(counts.found))
        return
    times, recorded = Times(), Recorded()
    for _ in turns(times, rounds):
        pass
    found: dict[str, Any] = {step: seconds / BATCH * 1e6 for step, seconds in times.least.items()}
    if what == "floor":
        for _ in turns(recorded, 1):
            pass
        found = {"apply": found}
        found["floor"] = {step: floor(asked, rounds) / BATCH * 1e6 for step, asked in recorded.asked.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
