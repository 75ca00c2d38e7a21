"""The log's account, entry by entry, as the first node applies it: assignments, outcomes, requests.

It reads commands, answers and actions, and after each write the rows of the instances concerned; it keeps accounts of
its own of retries, lost workers and kills.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raftsched.core import commands as c
from raftsched.core.actions import AttemptAssigned, AttemptEnded, SessionChanged
from raftsched.core.entry import EntryResult, decode_entry
from raftsched.core.ids import instance_text, job_text
from raftsched.core.model import ASKED_FOR, Delivery, Instance, JobState, Outcome, Overlap, Policy, StepKind
from raftsched.core.rows import decode_instance
from raftsched.core.tables import ReadView, Table
from raftsched.store import WriteBatch

if TYPE_CHECKING:
    from tests.sim.jobs.machine import JobsMachine
    from tests.sim.jobs.world import JobsWorld

# what a violation says
RETRIED_TOO_OFTEN = "more often than its retry levels allow"
LOST_TOO_OFTEN = "after it was lost more often than allowed"
AT_MOST_ONCE = "again, and it is to run at most once"
KILLED_BEFORE = "after it was killed"
WRONG_OUTCOME = "and really it"
WHILE_PAUSED = "while the cluster is paused"
WHILE_DRAINED = "which is drained"
OVER_LIMITS = "which lets nothing start"
DONE_TWICE = "is done again under its key"
NO_MORE = "after one that was to be the last"
KNOWN_AND_LOST = "is lost by an opening, and its worker could have told its end"
EXPIRED = "though nothing of it had begun when it expired"

# what may bring an instance to an end, and with it its job's schedule
MAY_SUSPEND = (
    c.Ended,
    c.EndedWithReport,
    c.LoseAttempt,
    c.EndSession,
    c.OpenSession,
    c.CloseSession,
    c.Wake,
    c.ReportConditions,
)


@dataclass(slots=True)
class Given:
    """An attempt, as the log has it."""

    token: int
    instance: bytes
    node: str
    session: int
    outcome: Outcome | None = None
    queue: str = ""
    over: bool = False  # the outcome is read from its row, which may be gone by then


@dataclass(slots=True)
class Account:
    """One instance, since it was made or asked to run again."""

    revision: int = 0
    tokens: list[int] = field(default_factory=list)
    before: int = 0  # the newest token of an earlier life
    failed: int = 0
    lost: int = 0
    killed_at: int | None = None  # index of the entry
    ended: int | None = None  # the token of an attempt that said that no other is to come
    rerun_id: int = 0  # of its workflow, which was run again from somewhere on


class Ledger:
    def __init__(self, world: JobsWorld) -> None:
        self.last = 0  # index of the newest entry read
        self.now_ms = 0  # its time
        self.policies: dict[int, dict[int, Policy]] = {}  # job id -> revision -> policy
        self.states: dict[int, JobState] = {}
        self.given: dict[int, Given] = {}  # by token
        self.accounts: dict[bytes, Account] = {}
        self.kills: set[bytes] = set()  # instances that somebody asked to end
        self.killed_roots: set[bytes] = set()  # of workflows that somebody asked to end
        self.ended_jobs: set[int] = set()  # all their runs were asked to end
        self.queues: dict[str, c.PutQueue] = {}  # limits
        self.drained: dict[str, bool] = {}
        self.paused = False
        self.counts: dict[str, int] = {}
        self.keyed: dict[bytes, bytes] = {}  # the instance that came of the first run under a key
        self._reopened: set[int] = set()  # sessions in whose place their workers opened another in the newest entry
        self._suspends = False  # something was applied that may have suspended a job
        self._world = world
        self._data: dict[tuple[int, int], bytes] = {}

    # ------------------------------------------------------------ what others ask

    def most_at_once(self, instance: bytes) -> int | None:
        """How many runs of its job may live while this instance does; None: any number."""
        policy = self.policy(instance)
        if policy is None:
            return None
        if policy.overlap is Overlap.ALLOW and not policy.max_concurrency:
            return None
        return max(1, policy.max_concurrency)

    def limits_by_key(self, instance: bytes) -> tuple[str, int] | None:
        """The key of a run, and how many may go with it: the same for all jobs. None: it has none."""
        policy = self.policy(instance)
        limits = None if policy is None else policy.concurrency
        return None if limits is None else (limits.value, limits.max)

    def policy(self, instance: bytes) -> Policy | None:
        """By which it was made."""
        account = self.accounts.get(instance)
        revisions = self.policies.get(int.from_bytes(instance[8:16], "big"), {})
        return None if account is None else revisions.get(account.revision)

    # ------------------------------------------------------------ reading

    def written(self, batch: WriteBatch) -> None:
        """A write is on a machine's disk."""
        for index, term, data in batch.append:
            if index > self.last:
                self._data[index, term] = data

    def applied(self, machine: JobsMachine, results: Sequence[EntryResult]) -> None:
        """Entries are in this machine's tables."""
        touched: list[tuple[str, int, bytes]] = []
        for entry in results:
            if entry.index == self.last + 1:
                self.last = entry.index
                self._read(entry, touched)
        if touched or self._suspends:
            assert machine.store is not None
            with machine.store.read() as view:
                for what, number, key in touched:
                    getattr(self, f"_{what}")(view, number, key)
                if self._suspends:
                    self._suspends = False
                    self._world.dues.look_for_suspended(view, self.now_ms)

    def _read(self, entry: EntryResult, touched: list[tuple[str, int, bytes]]) -> None:
        data = self._data.pop((entry.index, entry.term), b"")
        if not data:
            return
        decoded = decode_entry(data)
        self.now_ms = decoded.now_ms
        self._reopened.clear()
        commands: set[type] = {type(_asked(command)) for batch in decoded.batches for command in batch.commands}
        for batch, result in zip(decoded.batches, entry.batches, strict=True):
            if result.answers is None:
                continue
            for given, answer in zip(batch.commands, result.answers, strict=True):
                command = _asked(given)
                accepted = isinstance(answer, c.Accepted)
                name = f"{type(command).__name__}{'' if accepted else ' refused'}"
                self.counts[name] = self.counts.get(name, 0) + 1
                if isinstance(answer, c.Accepted):
                    self._accepted(entry.index, command, answer)
        self._suspends = self._suspends or not commands.isdisjoint(MAY_SUSPEND)
        for action in entry.actions:
            match action:
                case AttemptAssigned():
                    self._allowed(action, commands)
                    self.given[action.token] = Given(
                        action.token, action.instance, action.node, action.session, queue=action.queue
                    )
                    touched.append(("assigned", action.token, action.instance))
                    self._world.trace.event(
                        action.node,
                        "assigned",
                        action.token,
                        instance_text(action.instance),
                        f"session {action.session}",
                    )
                case AttemptEnded():
                    self.given[action.token].over = True
                    if action.outcome is Outcome.LOST and not commands & {c.EndSession, c.CloseSession}:
                        self._told_before(self.given[action.token])
                    self._world.truth.over(action.token, f"entry {entry.index}")
                    touched.append(("ended", action.token, action.instance))
                case SessionChanged():
                    state = "opened" if action.open else "ended"
                    self._world.trace.event(action.node, "session", action.session, state)

    def _accepted(self, index: int, command: c.Command, answer: c.Accepted) -> None:
        job = answer.job
        before = None
        if job is not None:
            before = self.states.get(job.id)
            self.policies.setdefault(job.id, {})[job.revision] = job.policy
            self.states[job.id] = job.state
        match command:
            case c.Rerun() | c.Requeue():
                account = self.accounts.setdefault(command.instance, Account())
                account.before = max(account.tokens, default=0)
                account.failed = account.lost = 0
                account.killed_at = account.ended = None
            case c.Kill():
                self.kills.add(command.instance)
                account = self.accounts.setdefault(command.instance, Account())
                account.killed_at = index
            case c.KillWorkflow():
                self.killed_roots.add(command.root)
            case c.RunNow() if command.key and answer.instance is not None:
                first = self.keyed.setdefault(command.key, answer.instance)
                if first != answer.instance:
                    made = instance_text(answer.instance)
                    self._world.checks.fail(f"the run {instance_text(first)} {DONE_TWICE}: {made}")
            case c.OpenSession() | c.OpenWorker():
                self._reopened.add(command.replaces)
            case c.PutQueue():
                self.queues[command.name] = command
            case c.DeleteQueue():
                self.queues.pop(command.name, None)
            case c.Fire() if self.paused:
                self._world.checks.fail(f"job {job_text(command.job_id)} is fired {WHILE_PAUSED}")
            case c.PauseCluster():
                self.paused = command.paused
            case c.PutNodeRule():
                self.drained[command.node] = command.drained
            case c.DeleteJob():
                self.ended_jobs.add(command.job_id)
            case c.SetJobState(state=JobState.EXPIRED, kill=True):
                self.ended_jobs.add(command.job_id)
            case _:
                pass
        self._world.dues.accepted(self.now_ms, command, answer, before)

    def _told_before(self, given: Given) -> None:
        """Where its worker has opened another session, it has told the ends that it knew."""
        worker = self._world.workers.get(given.node) or self._world.machines.get(given.node)
        if given.session in self._reopened and worker and worker.runner and given.token in worker.runner.told:
            self._world.checks.fail(f"attempt {given.token} on {given.node} {KNOWN_AND_LOST}")

    def _allowed(self, action: AttemptAssigned, commands: set[type]) -> None:
        """Cluster, node and queue let it start. `commands`: of the same entry, whose order is not looked at."""
        what, fail = f"attempt {action.token} is given out", self._world.checks.fail
        if self.paused and c.PauseCluster not in commands:
            fail(f"{what} {WHILE_PAUSED}")
        if self.drained.get(action.node) and c.PutNodeRule not in commands:
            fail(f"{what} to {action.node}, {WHILE_DRAINED}")
        limits = self.queues.get(action.queue)
        changes = {c.PutQueue, c.DeleteQueue, c.Ended, c.EndedWithReport, c.LoseAttempt, c.EndSession, c.OpenSession}
        if limits is None or commands & changes:
            return
        running = sum(not one.over and one.queue == action.queue for one in self.given.values())
        if limits.paused or (limits.max_running is not None and running >= limits.max_running):
            fail(f"{what} in queue {limits.name}, {OVER_LIMITS}: {running} run, the limits are {limits}")

    # ------------------------------------------------------------ attempts

    def _row(self, view: ReadView, key: bytes) -> Instance | None:
        raw = view.get(Table.INSTANCES, key)
        return None if raw is None else decode_instance(raw)

    def _assigned(self, view: ReadView, token: int, key: bytes) -> None:
        account = self.accounts.setdefault(key, Account())
        row = self._row(view, key)
        if row is not None:
            account.revision = row.job_revision
            if row.rerun_id > account.rerun_id:
                account.before = max(account.tokens, default=0)
                account.failed = account.lost = 0
                account.killed_at = account.ended = None
                account.rerun_id = row.rerun_id
        account.tokens.append(token)
        policy = self.policy(key)
        if policy is None:
            return
        what = f"attempt {token} of {instance_text(key)} is given out"
        fail = self._world.checks.fail
        if account.failed > len(policy.retry.delays_ms):
            fail(f"{what} {RETRIED_TOO_OFTEN}: {account.failed} failed, {len(policy.retry.delays_ms)} levels")
        if account.ended is not None:
            fail(f"{what} {NO_MORE}: attempt {account.ended} said so")
        if account.lost > policy.max_lost:
            fail(f"{what} {LOST_TOO_OFTEN}: {account.lost} times, {policy.max_lost} allowed")
        first = row is not None and not account.before and len(account.tokens) == 1
        if first and row is not None and policy.expires_ms and _begins_late(row, token, policy):
            fail(f"{what} {EXPIRED}: {policy.expires_ms} ms")
        if policy.delivery is Delivery.AT_MOST_ONCE:
            earlier = [self.given[one] for one in account.tokens[:-1] if one > account.before]
            if any(one.outcome in (Outcome.LOST, Outcome.KILLED) and self._ran(one) for one in earlier):
                fail(f"{what} {AT_MOST_ONCE}")
        if account.killed_at is not None and account.killed_at < self.last:
            fail(f"{what} {KILLED_BEFORE} in entry {account.killed_at}")

    def _ran(self, given: Given) -> bool:
        """Its worker was lost (that it ran cannot be known, and is taken for granted), or it really ran."""
        return given.outcome is Outcome.LOST or given.token in self._world.truth.runs

    def _ended(self, view: ReadView, token: int, key: bytes) -> None:
        row = self._row(view, key)
        attempt = None if row is None else next((one for one in row.attempts if one.token == token), None)
        if row is None or attempt is None or attempt.outcome is None:
            return
        given, account = self.given[token], self.accounts.setdefault(key, Account())
        given.outcome = attempt.outcome
        self._world.trace.event(given.node, "ended", token, attempt.outcome.name, row.state.name)
        self._as_it_was(given)
        if token > account.before and row.state is not None:
            account.lost += attempt.outcome is Outcome.LOST
            account.failed += attempt.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)
            if attempt.outcome is Outcome.CANCELLED or row.reason == "no_retry":
                account.ended = token

    def _as_it_was(self, given: Given) -> None:
        """A reported end must be what really happened; one that is not reported says nothing."""
        if given.outcome is Outcome.LOST:
            return
        run = self._world.truth.runs.get(given.token)
        really = "never ran" if run is None else "runs" if run.outcome is None else f"was {run.outcome.name}"
        if given.outcome in (Outcome.SNOOZED, Outcome.CANCELLED):  # as it said when it ended by itself
            ended = run is not None and run.outcome in (Outcome.SUCCEEDED, Outcome.FAILED)
            if not ended:
                self._world.checks.fail(f"attempt {given.token} is {given.outcome.name}, {WRONG_OUTCOME} {really}")
            return
        never = run is None and given.outcome in (Outcome.KILLED, Outcome.FAILED)
        back = given.outcome is Outcome.KILLED and run is not None and run.outcome is not None  # its node stopped
        if not never and not back and (run is None or run.outcome is not given.outcome):
            assert given.outcome is not None
            self._world.checks.fail(
                f"attempt {given.token} of {instance_text(given.instance)} ended {given.outcome.name} by the log, "
                f"{WRONG_OUTCOME} {really}"
            )


def _begins_late(row: Instance, token: int, policy: Policy) -> bool:
    """Returns whether the attempt was given out when the run had expired: one that was asked for, also again, counts
    from then."""
    attempt = next((one for one in row.attempts if one.token == token), None)
    asked = [step for step in row.steps if step.kind is StepKind.RERUN or step.detail in ASKED_FOR]
    since = row.created_at_ms + asked[-1].after_ms if asked else row.nominal_at_ms + row.jitter_ms
    return attempt is not None and attempt.assigned_at_ms >= since + policy.expires_ms


def _asked(command: c.Command) -> c.Command:
    """Whoever asked for it."""
    return c.unwrap(command) if isinstance(command, c.Attributed) else command
