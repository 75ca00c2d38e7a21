"""The lives of one-shots against a store alone: created, fired, assigned, begun, ended, dropped by retention. One
process, no network, no flush: what a node writes and computes for each, by how long its turns are.

LMDB copies each page that changes once in a turn, so bytes follow the pages and not the rows: a longer turn shares them
among more jobs, and jobs that are due in the order of their creation lie on the same pages all their lives.

written_kib       bytes handed to the file system for a whole life, entries of the log and their compaction counted
cpu_us            processor time of applying it
pages_per_turn    4 KiB each
file_mib          of the data file at the end; it stays the same from when retention bites
"""

from __future__ import annotations

import heapq
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

from raftsched.core import commands as c
from raftsched.core.entry import encode_entry
from raftsched.core.ids import instance_key
from raftsched.core.model import Outcome, Placement, Policy, Trigger, TriggerKind
from raftsched.core.rows import META_KEY, decode_meta
from raftsched.core.subjects import cluster
from raftsched.core.tables import Table
from raftsched.raft.checkpoints import EVERY_S
from raftsched.store import LogEntry, Store, WriteBatch
from scripts.benches.figures import emit, note

BODY = b'{"handler":{"python":"raftsched.samples:noop"},"params":{"user":"somebody@example.org"},"trigger":{"in":"8s"}}'
KEPT_ENTRIES = 1_000
DAY_MS = 86_400_000
FILL = 1_000  # jobs of one turn
PRUNE_ROWS = 250
CHECKPOINT_MS = int(1_000 * EVERY_S)
PRUNE_EVERY_MS = 1_000
PAGE = 4_096


@dataclass(frozen=True, slots=True)
class Plan:
    per_second: int
    seconds: float  # measured, after retention began to bite
    lead_s: float  # from creation to the due time, on the average
    keep_s: float
    stored: int  # jobs beside, due another day


class Life:
    def __init__(self, directory: Path, plan: Plan, scattered: bool) -> None:
        self.store = Store.open(directory, sync=False)
        self.ended = 0
        self.turns = 0
        self._plan = plan
        self._scattered = scattered
        self._rng = random.Random(1)
        self._now = 1_700_000_000_000
        self._index = 0
        self._due: list[tuple[int, int]] = []
        self._assigned: list[int] = []
        self._started: list[int] = []
        self._owed = 0.0  # jobs to be created
        self._next_prune_ms = 0
        self._next_checkpoint_ms = 0
        self._session = self._found()

    def _found(self) -> int:
        self._apply(
            [cluster.Form(b"c" * 16, (cluster.Member("n1", "n1:1", b"s" * 8),)), cluster.OpenLeadership(1, "n1")]
        )
        with self.store.read() as view:
            settings = decode_meta(view.get(Table.META, META_KEY)).settings
        kept_ms = int(1_000 * self._plan.keep_s)
        settings = msgspec.structs.replace(settings, once_succeeded_keep_ms=kept_ms, events_keep_ms=kept_ms)
        self._apply([cluster.PutSettings(settings)])
        (opened,) = self._apply([cluster.OpenSession("n1", 0, "boot", b"n" * 16, 10_000)])
        assert isinstance(opened, c.Accepted)
        assert opened.number is not None
        return opened.number

    def _apply(self, commands: list[c.Command]) -> list[c.Answer]:
        """One entry, appended and applied by one turn."""
        self._index += 1
        data = encode_entry(self._now, [(1, self._index, [c.encode(command) for command in commands])])
        entry = LogEntry(self._index, 1, data)
        drop = self._index - KEPT_ENTRIES
        self.store.write(WriteBatch(append=[entry], commit_index=self._index, drop_below=drop if drop > 1 else None))
        answers = self.store.apply([entry])[0].batches[0].answers
        self._checkpoint()
        assert answers is not None
        refused = next((answer for answer in answers if isinstance(answer, c.Rejected)), None)
        if refused is not None:
            raise RuntimeError(f"a command was refused: {refused.code} {refused.detail}")
        return answers

    def _checkpoint(self) -> None:
        """As often as a node makes one, by the time that passes here."""
        if self._now >= self._next_checkpoint_ms:
            self._next_checkpoint_ms = self._now + CHECKPOINT_MS
            pending = self.store.begin_checkpoint()
            if pending is not None:
                self.store.write_checkpoint(pending)
                self.store.end_checkpoint(pending)

    def fill(self) -> None:
        for _ in range(0, self._plan.stored, FILL):
            self._apply([self._create(self._now + self._rng.randrange(DAY_MS, 10 * DAY_MS)) for _ in range(FILL)])
            self._next_checkpoint_ms = self._now  # so many jobs take their time

    def _create(self, at_ms: int) -> c.CreateJob:
        return c.CreateJob("default", None, Policy(trigger=Trigger(kind=TriggerKind.AT, at_ms=at_ms)), BODY)

    def live(self, seconds: float, turn_ms: int) -> None:
        end = self._now + 1_000 * seconds
        while self._now < end:
            self._now += turn_ms
            self._turn(turn_ms)

    def _turn(self, turn_ms: int) -> None:
        commands: list[c.Command] = []
        self._owed += self._plan.per_second * turn_ms / 1_000
        lead_ms = int(1_000 * self._plan.lead_s)
        for _ in range(int(self._owed)):
            ahead = self._rng.randrange(1, 2 * lead_ms) if self._scattered else lead_ms
            commands.append(self._create(self._now + ahead))
        self._owed %= 1
        while self._due and self._due[0][0] <= self._now:
            at_ms, job = heapq.heappop(self._due)
            commands += [
                c.Fire(job, 1, at_ms),
                c.Assign(instance_key(at_ms, job), self._session, Placement(1, 10_000, 1, 1)),
            ]
        commands += [c.Started(self._session, token, self._now) for token in self._assigned]
        for token in self._started:
            commands.append(c.Ended(self._session, token, Outcome.SUCCEEDED, self._now - 9, self._now, 0))
        self.ended += len(self._started)
        self._started, self._assigned = self._assigned, []
        if self._now >= self._next_prune_ms:
            self._next_prune_ms = self._now + PRUNE_EVERY_MS
            commands += [c.Prune(self._now, PRUNE_ROWS)] * (1 + 2 * self._plan.per_second // PRUNE_ROWS)
        for command, answer in zip(commands, self._apply(commands), strict=True):
            assert isinstance(answer, c.Accepted)
            if isinstance(command, c.CreateJob) and answer.job is not None:
                heapq.heappush(self._due, (command.policy.trigger.at_ms, answer.job.id))
            elif isinstance(command, c.Assign) and answer.number is not None:
                self._assigned.append(answer.number)
        self.turns += 1


def bench_lives(plan: Plan, turns_ms: list[int]) -> None:
    for scattered in (False, True):
        for turn_ms in turns_ms:
            with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
                life = Life(Path(directory), plan, scattered)
                if plan.stored:
                    note(f"storing {plan.stored:,} jobs ...")
                    life.fill()
                life.live(2 * plan.lead_s + plan.keep_s + 2, turn_ms)
                ended, turns, written, cpu = life.ended, life.turns, _written(), time.process_time()
                life.live(plan.seconds, turn_ms)
                ended, turns = life.ended - ended, life.turns - turns
                written = _written() - written
                emit(
                    "lives",
                    order="scattered" if scattered else "as created",
                    turn_ms=turn_ms,
                    stored=plan.stored,
                    written_kib=written / ended / 1024,
                    cpu_us=(time.process_time() - cpu) / ended * 1e6,
                    pages_per_turn=written / turns / PAGE,
                    file_mib=sum(file.stat().st_size for file in Path(directory).glob("*/data.mdb")) / 2**20,
                )
                life.store.close()


def _written() -> int:
    """By this process up to now, with its write calls: LMDB has no others, and nothing else writes here."""
    for line in Path("/proc/self/io").read_text().splitlines():
        name, _, value = line.partition(": ")
        if name == "wchar":
            return int(value)
    raise RuntimeError("/proc/self/io does not say what was written")
