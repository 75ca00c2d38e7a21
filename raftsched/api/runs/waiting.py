"""The obstacle for which an instance that has not started waits now, and all that a run of a job would wait for if its
time came now, read from the tables as of one moment.

Of an instance the answer names the first thing that is in its way, in the order in which they have to go: a leader, the
pause of the cluster, another run of its job, its conditions, its key, its queue, a node that can take it, a free slot,
its turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from raftsched.api.http.durations import format_time
from raftsched.api.ports import ClusterStatus
from raftsched.api.rows import SCAN_MAX, get_instance, newest_session, node_rule
from raftsched.api.runs.explain_words import error_words
from raftsched.api.runs.parts import rows_of_parts
from raftsched.api.runs.parts_words import LOOK_MAX as PARTS_LOOKED
from raftsched.api.runs.parts_words import part_name
from raftsched.core import rows
from raftsched.core.ids import instance_text
from raftsched.core.model import (
    FINAL,
    ConditionKind,
    Instance,
    InstanceState,
    Job,
    Overlap,
    Policy,
    StepKind,
    scheduled_instance,
)
from raftsched.core.rules.admission import blocked_reason, unblocked_at_ms
from raftsched.core.rules.concurrency import can_start
from raftsched.core.rules.eligibility import Offer, lacking, offer
from raftsched.core.rules.executors import WORKER_KEYS, at_start, in_words, is_worker
from raftsched.core.rules.run_keys import (
    Blocked,
    Concurrency,
    Permit,
    PermitState,
    RunKey,
    blocked_by,
    key_of,
    line_key,
    line_of,
    look_again_ms,
    run_key,
)
from raftsched.core.subjects.cluster import Meta, NodeRule
from raftsched.core.subjects.notices import quota_queue
from raftsched.core.subjects.queue import Queue
from raftsched.core.tables import ReadView, Table, after, from_by_job, held_key, ready_key, u64
from raftsched.quantities import format_duration

NO_TROUBLES: Mapping[str, str] = {}
_SHOWN = 5  # names that one text lists
WORKERS_SEEN = 2_000  # of which the session is remembered decoded
# Nodes of 0.2.0 say this of a run whose rows they have not applied yet. Its job is there: else nothing waits.
_NOT_HEARD_OF = "the job's definition is gone"
_NO_RULE = NodeRule()  # nobody sets anything for a worker but it itself


@dataclass(frozen=True, slots=True)
class Obstacle:
    """`reason` is a stable code."""

    reason: str
    text: str


_NO_LEADER = Obstacle("no_leader", "The cluster has no leader at the moment, as far as this node knows.")
_PAUSED = Obstacle("cluster_paused", "The cluster is paused: nothing is fired, nothing is given to nodes.")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member that has or had a session, as the rules about it have it; or a remote worker that has one."""

    offer: Offer
    voter: bool
    session: int
    open: bool  # the session

    @property
    def name(self) -> str:
        return self.offer.node

    @property
    def words(self) -> str:
        return in_words(self.offer.node)

    def running(self, view: ReadView) -> int:
        prefix = u64(self.session)
        return sum(1 for _ in view.scan(Table.ASSIGNED, prefix, after(prefix)))


def waits_for(
    view: ReadView,
    meta: Meta,
    status: ClusterStatus,
    job: Job,
    policy: Policy,
    row: Instance,
    now_ms: int,
    troubles: Mapping[str, str] = NO_TROUBLES,
) -> Obstacle | None:
    """None: it waits for nothing, it runs or is at its end. `policy` is that of the row's revision. `troubles`: why
    nodes start nothing, by id. A run of several parts waits when none of them runs."""
    if row.state is InstanceState.RUNNING and row.parts is not None:
        part, more = _waiting_part(view, row)
        own = None if part is None else waits_for(view, meta, status, job, policy, part, now_ms, troubles)
        return None if part is None or own is None else _of_part(part, more, own)
    if row.state in FINAL or row.state is InstanceState.RUNNING:
        return None
    if row.state is InstanceState.LAUNCHED:
        node = row.attempts[-1].node
        why = f"; {troubles[node]}" if node in troubles else ""
        return Obstacle("start", f"{at_start(node)} was given it, and has not said yet that it started{why}.")
    if status.leader is None:
        return _NO_LEADER
    if row.state is InstanceState.RETRYING:
        return _delay(row, now_ms)
    if row.held:
        return _behind(view, job, row)
    if row.checking:
        return _conditions(view, meta, policy, job.namespace, row, now_ms)
    if row.permit is not None and row.permit.state is PermitState.IN_LINE:
        return _line(view, job, row, row.permit, now_ms)
    if meta.paused:
        return _PAUSED
    return (
        next(_queues_of(view, job, policy, now_ms), None)
        or _place(view, meta, status, policy, job.namespace, row, troubles)
        or _turn(view, row)
    )


def would_wait_for(
    view: ReadView, meta: Meta, status: ClusterStatus, job: Job, now_ms: int, troubles: Mapping[str, str] = NO_TROUBLES
) -> Iterator[Obstacle]:
    """Yields all that a run of the job, with the job's own params, would wait for if its time came now."""
    if status.leader is None:
        yield _NO_LEADER
    if meta.paused:
        yield _PAUSED
    found = (_of_others(view, job), _of_key(view, job, now_ms))
    yield from (one for one in found if one is not None)
    yield from _queues_of(view, job, job.policy, now_ms)
    place = _place(view, meta, status, job.policy, job.namespace, None, troubles)
    if place is not None:
        yield place


def _delay(row: Instance, now_ms: int) -> Obstacle:
    """The delay before its next attempt, with what the last one said."""
    said = error_words(row.error)
    why, when = f": {said}" if said else "", time_words(row.wake_at_ms or now_ms, now_ms)
    if row.reason == "snoozed":
        return Obstacle("snoozed", f"Its last attempt put it off{why}. The next one may start {when}.")
    return Obstacle("retry", f"Its last attempt failed{why}. The next one may start {when}.")


def time_words(at_ms: int, now_ms: int) -> str:
    """Returns "now", or a time and how long it is until then."""
    if at_ms <= now_ms:
        return "now"
    return f"at {format_time(at_ms)}, in {format_duration(at_ms - now_ms)}"


# ---------------------------------------------------------------- its parts


def _waiting_part(view: ReadView, row: Instance) -> tuple[Instance | None, int]:
    """Returns the first part that waits, and how many others do. None: one runs, all are at their end, or there are too
    many to look at."""
    waiting: list[Instance] = []
    for looked, (_, raw) in enumerate(rows_of_parts(view, row)):
        part = rows.decode_instance(raw)
        if part.live is not None or looked >= PARTS_LOOKED:
            return None, 0
        if part.state not in FINAL:
            waiting.append(part)
    return (waiting[0], len(waiting) - 1) if waiting else (None, 0)


def _of_part(part: Instance, more: int, own: Obstacle) -> Obstacle:
    others = f", as {more} more part{'s do' if more > 1 else ' does'}" if more else ""
    return Obstacle(own.reason, f"It waits for {part_name(part)}{others}: {own.text}")


# ---------------------------------------------------------------- other runs, conditions


def _behind(view: ReadView, job: Job, row: Instance) -> Obstacle:
    going = [instance_text(key) for key in islice(_going(view, job, row.key), _SHOWN + 1)]
    prefix = u64(job.id)
    own = held_key(job.id, row.ready_at_ms, row.key)
    earlier = sum(1 for _ in islice(view.scan(Table.HELD, prefix, own), SCAN_MAX))
    first = _some(going) if going else "another run"
    text = f"It starts after {first}: its job may have no more runs at one time"
    if earlier:
        text += f"; {_at_least(earlier)} more of its job wait{'s' * (earlier == 1)} in front of it"
    if row.steps and row.steps[0].detail == "missed":
        text += f". Its time was missed; the job catches up, one run after the other, and {_owes(job.held)}"
    return Obstacle("overlap", text + ".")


_THEN = {
    Overlap.FORBID: "what comes due meanwhile is skipped",
    Overlap.QUEUE_ONE: "one more waits behind it, and what comes due then is skipped",
}


def _of_others(view: ReadView, job: Job) -> Obstacle | None:
    """Its own runs that keep the next one from starting."""
    if can_start(job) or job.policy.overlap is Overlap.REPLACE:
        return None
    going = [instance_text(key) for key in islice(_going(view, job, b""), _SHOWN + 1)]
    many = f"{_some(going)} {'is' if len(going) == 1 else 'are'} active" if going else f"{job.active} are active"
    then = _THEN.get(job.policy.overlap, "what comes due meanwhile waits behind it")
    held = f", and {job.held} wait already" if job.held else ""
    return Obstacle(
        "overlap",
        f"{'Its run' if len(going) == 1 else 'Of its runs'} {many}, and its overlap policy "
        f"{job.policy.overlap.name.lower()} lets no other start: {then}{held}.",
    )


def _owes(held: int) -> str:
    return "this run is owed" if held == 1 else f"{held} runs are owed"


def _going(view: ReadView, job: Job, but: bytes) -> Iterator[bytes]:
    """Keys of the job's instances that are neither final nor held, newest first but for a one-shot's own."""
    own = scheduled_instance(job)
    if own is not None and own != but and _is_going(get_instance(view, own)):
        yield own
    prefix = u64(job.id)
    for index_key, state in islice(view.scan(Table.BY_JOB, prefix, after(prefix), reverse=True), SCAN_MAX):
        key = from_by_job(index_key)
        if state[0] not in FINAL and key not in (but, own) and _is_going(get_instance(view, key)):
            yield key


def _is_going(row: Instance | None) -> bool:
    return row is not None and row.state not in FINAL and not row.held


def _conditions(view: ReadView, meta: Meta, policy: Policy, namespace: str, row: Instance, now_ms: int) -> Obstacle:
    text = "Its conditions are not met"
    found = row.error or next((s.detail for s in reversed(row.steps) if s.kind is StepKind.CONDITIONS), None)
    if found and found.rstrip(".").endswith(_NOT_HEARD_OF):
        found = "a node was asked before it had heard of this run"
    if found:
        text += f": {found.rstrip('.')}"
    if row.wake_at_ms is not None and row.wake_at_ms != row.checks_end_at_ms:  # else it will be told
        text += f"; they are looked at again {time_words(row.wake_at_ms, now_ms)}"
    if row.checks_end_at_ms is not None and row.checks_end_at_ms != row.expires_at_ms:
        text += f"; it is given up {time_words(row.checks_end_at_ms, now_ms)}"
    text += "."
    if any(condition.kind is ConditionKind.PATH for condition in policy.conditions):
        able = [n.name for n in candidates(view, meta) if n.open and n.offer.can(policy, namespace)]
        if able and all(is_worker(name) for name in able):
            text += " Paths are looked for by nodes, and only remote workers could run it at present."
    return Obstacle("conditions", text)


# ---------------------------------------------------------------- its key


def _line(view: ReadView, job: Job, row: Instance, permit: Permit, now_ms: int) -> Obstacle:
    key = run_key(permit.namespace, permit.key)
    low, own = line_of(key), line_key(key, row.score_ms, row.key)
    earlier = sum(1 for _ in islice(view.scan(Table.KEY_LINES, low, own), SCAN_MAX))
    ahead = f" {_at_least(earlier)} in its line go first." if earlier else ""
    found = _permits(view, key, permit.key, job.policy.concurrency, now_ms)
    if found is not None:
        return Obstacle(found.reason, f"{found.text}{ahead}")
    first = " It is the first, and is about to go."
    return Obstacle("key_line", f'It waits in the line of its key "{permit.key}".{ahead or first}')


def _of_key(view: ReadView, job: Job, now_ms: int) -> Obstacle | None:
    """The key of a run with the job's own params."""
    limits = job.policy.concurrency
    if limits is None:
        return None
    key = key_of(limits, job.name, job.id, None)
    return _permits(view, run_key(job.namespace, key), key, limits, now_ms)


def _permits(view: ReadView, key: bytes, text: str, limits: Concurrency | None, now_ms: int) -> Obstacle | None:
    """The permits of a key that are out, or its rate; None: one more may go by it."""
    counted, name = rows.RUN_KEYS.get(view, key) or RunKey(), f'its key "{text}"'
    match blocked_by(counted, limits, now_ms):
        case Blocked.FULL if limits is not None:
            holders = [instance_text(holder) for holder in counted.holders]
            held = _some([*holders, *["another"] * (counted.running - len(holders))])
            many = f"one of the {limits.max} permits" if limits.max > 1 else "the one permit"
            return Obstacle("key_full", f"It waits for {many} of {name}, held by {held}.")
        case Blocked.RATE | Blocked.RATES if limits is not None:
            rate = f"{limits.rate_count} may start in {format_duration(limits.rate_period_ms)}"
            at_ms = look_again_ms(counted, limits, now_ms)
            soon = (
                "one that may has to start first"
                if at_ms is None
                else f"the next may start {time_words(at_ms, now_ms)}"
            )
            return Obstacle("key_rate", f"With {name} at most {rate}; {soon}.")
    return None


# ---------------------------------------------------------------- its queue


def _queues_of(view: ReadView, job: Job, policy: Policy, now_ms: int) -> Iterator[Obstacle]:
    """Yields the limits that let no more start: of its queue, and of its namespace."""
    queue = rows.QUEUES.get(view, policy.queue)
    quota = rows.QUEUES.get(view, quota_queue(job.namespace))
    found = (
        None if queue is None else _queue_of(queue, now_ms),
        None if quota is None else _quota_of(quota, job.namespace, now_ms),
    )
    yield from (one for one in found if one is not None)


def _quota_of(queue: Queue, namespace: str, now_ms: int) -> Obstacle | None:
    name = f'Its namespace "{namespace}"'
    match blocked_reason(queue, now_ms):
        case "full":
            return Obstacle("namespace_full", f"{name} runs {queue.running} of {queue.max_running}.")
        case "rate":
            when = time_words(unblocked_at_ms(queue, now_ms), now_ms)
            return Obstacle(
                "namespace_rate", f"{name} lets {queue.rate_count} start in a minute; the next may start {when}."
            )
    return None


def _queue_of(queue: Queue, now_ms: int) -> Obstacle | None:
    name = f'Its queue "{queue.name}"'
    match blocked_reason(queue, now_ms):
        case "paused":
            return Obstacle("queue_paused", f"{name} is paused.")
        case "full":
            return Obstacle("queue_full", f"{name} is full: {queue.running} of {queue.max_running} run.")
        case "rate":
            many, per = queue.rate_count, format_duration(queue.rate_period_ms)
            when = time_words(unblocked_at_ms(queue, now_ms), now_ms)
            return Obstacle("queue_rate", f"{name} lets {many} start in {per}; the next may start {when}.")
    return None


# ---------------------------------------------------------------- a node


def _place(
    view: ReadView,
    meta: Meta,
    status: ClusterStatus,
    policy: Policy,
    namespace: str,
    row: Instance | None,
    troubles: Mapping[str, str],
) -> Obstacle | None:
    """The nodes and workers that could take it; None: one has a free slot. `row`: None for a run that is not there
    yet."""
    every = list(candidates(view, meta))
    nodes = [n for n in every if n.open]
    able = [n for n in nodes if n.voter and not n.offer.drained and n.offer.can(policy, namespace)]
    if row is not None and row.only_on:
        able = [n for n in able if n.name == row.only_on]
        if not able and row.parent is not None:
            until = "" if row.wake_at_ms is None else f" It waits for it until {format_time(row.wake_at_ms)}."
            there = next((n for n in every if n.name == row.only_on), None)
            text = f"This part is for {in_words(row.only_on)}, which {_unable(there)}.{until}"
            return Obstacle("node_gone", text)
        if not able:
            return Obstacle(
                "node_gone",
                f"The paths of its conditions were seen on {in_words(row.only_on)}, which cannot take it now; they are "
                "looked for again.",
            )
    if not able:
        return Obstacle(
            "no_eligible_node", _absent(every, policy, namespace, troubles) or _lacking(nodes, policy, namespace)
        )
    well = [n for n in able if n.name not in troubles]
    if not well:
        why = _some([f"{n.words} ({troubles[n.name]})" for n in able])
        return Obstacle("no_node_starts", f"Every {_kind(able)} that can take it starts nothing at the moment: {why}.")
    idle = [f"{n.words} ({troubles[n.name]})" for n in able if n.name in troubles]
    able = well
    busy: list[str] = []
    followers = [n for n in able if n.name != status.leader] or able
    for node in followers:
        running = node.running(view)
        if running < node.offer.slots:
            return None
        busy.append(f"{node.words} ({running} of {node.offer.slots} slots)")
    text = f"Every {_kind(followers)} that can take it is busy: {_some(busy)}"
    return Obstacle("no_free_slot", f"{text}; or starts nothing at the moment: {_some(idle)}." if idle else f"{text}.")


def _unable(node: Candidate | None) -> str:
    """Returns why a part cannot go to the node that it is for, to stand behind "which"."""
    if node is None or not node.open:
        return "has no session at the moment: it may be down"
    return "is drained" if node.offer.drained else "cannot take it now"


def _kind(nodes: list[Candidate]) -> str:
    return "node or worker" if any(is_worker(n.name) for n in nodes) else "node"


def _absent(nodes: list[Candidate], policy: Policy, namespace: str, troubles: Mapping[str, str]) -> str | None:
    """Members that could take it by what they offered last, and have no session now. None: there are none."""
    away = [n.name for n in nodes if not n.open and n.offer.can(policy, namespace)]
    gone = [f"{name} ({troubles[name]})" if name in troubles else name for name in away]
    if not gone:
        return None
    return (
        f"{_some(gone)} could take it, but {'has' if len(gone) == 1 else 'have'} no session at the moment: a node that "
        "is down has none, nor one that waits until the processes of an earlier run of it are gone (its log says so)."
    )


def nobody_takes(among: list[Candidate], policy: Policy, namespace: str) -> str | None:
    """Returns a sentence that says why none of them is given a run with this policy, busy or not; None: one is."""
    if any(n.open and n.voter and not n.offer.drained and n.offer.can(policy, namespace) for n in among):
        return None
    away = _absent(among, policy, namespace, NO_TROUBLES)
    return away or _lacking([n for n in among if n.open], policy, namespace)


def takers(view: ReadView, meta: Meta) -> list[Offer]:
    """Returns what those offer that are given runs now: nodes that vote and remote workers, with a session and not
    drained."""
    return [n.offer for n in candidates(view, meta) if n.open and n.voter and n.offer.runs and not n.offer.drained]


def candidates(view: ReadView, meta: Meta) -> Iterator[Candidate]:
    """Yields whoever could be given runs, now or once they have a session again."""
    for member in meta.members:
        session = newest_session(view, member.node)
        if session is None:
            continue
        yield Candidate(offer(session, node_rule(view, member.node)), member.voter, session.id, session.open)
    for _, number in islice(view.scan(Table.NODES, *WORKER_KEYS), meta.workers):
        raw = view.get(Table.SESSIONS, number)
        if raw is not None:
            yield _worker(raw)


@lru_cache(WORKERS_SEEN)
def _worker(raw: bytes) -> Candidate:
    """Returns a worker by the row of its session, which does not change while it is open."""
    session = rows.decode_session(raw)
    return Candidate(offer(session, _NO_RULE), True, session.id, session.open)


def _lacking(nodes: list[Candidate], policy: Policy, namespace: str) -> str:
    """Why none of these nodes is given it, busy or not."""
    able = [n for n in nodes if n.offer.can(policy, namespace)]
    if not able:
        return lacking([n.offer for n in nodes], policy, namespace)
    free = [n for n in able if not n.offer.drained]
    if not free:
        return f"Every {_kind(able)} that could take it is drained: {_some([n.words for n in able])}."
    names, does = _some([n.name for n in free]), "does" if len(free) == 1 else "do"
    return f"{names} could take it, but {does} not vote yet: a node is given runs once it votes."


# ---------------------------------------------------------------- its turn


def _turn(view: ReadView, row: Instance) -> Obstacle:
    low = ready_key(row.lane, 0, b"")
    ahead = sum(1 for _ in islice(view.scan(Table.READY, low, ready_key(row.lane, row.score_ms, row.key)), SCAN_MAX))
    if ahead:
        return Obstacle(
            "turn", f"It is number {_at_least(ahead + 1)} in line: others have a higher priority, or came earlier."
        )
    return Obstacle("turn", "It is the first in line: the leader is about to give it to a node.")


def _at_least(count: int) -> str:
    return f"{count} or more" if count >= SCAN_MAX else str(count)


def _some(names: list[str], joint: str = ", ") -> str:
    more = len(names) - _SHOWN
    return joint.join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
