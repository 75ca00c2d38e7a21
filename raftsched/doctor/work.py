"""The checks of the work: what is paused, waits, is late, fails."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.doctor.checks import Finding, lasting
from raftsched.doctor.disks import SLOW_LEAST, SLOW_SHARE
from raftsched.doctor.facts import Facts
from raftsched.doctor.samples import (
    ACTIVE,
    DEAD,
    FAILING,
    FAILURES,
    GONE,
    LATELY,
    OLDEST,
    OVERDUE,
    QUEUE_PAUSED,
    RUNNING,
    SLOTS,
    UNPLACEABLE,
    UNSENT,
    labelled,
    lately,
)
from raftsched.quantities import format_duration

WAIT_S = 900
FAILING_SHARE, FAILING_LEAST = 0.5, 10  # of the attempts of a namespace that ended lately
WEBHOOK_FAILURES = 3  # in a row
OVERDUE_S = 60  # of a due time that was not fired, as the alert has it
FAILING_S = 900  # without one that succeeds
UNSENT_S = 300  # of a delivery, as the alert has it (deploy/prometheus/alerts.yml)
_SHOWN = 5  # of a kind
_SYSTEM = "_system"  # the namespace of deliveries, which have a check of their own


def paused(facts: Facts) -> Iterator[Finding]:
    if facts.pauses.cluster or facts.cluster.get("paused"):
        says = f"the cluster is paused{lasting(facts.pauses.cluster_for_ms)}, nothing is started"
        yield Finding("paused", "warn", says, "raftsched cluster resume")
    else:
        yield Finding("paused", "ok", "no")


def queues(facts: Facts) -> Iterator[Finding]:
    found = facts.pauses.queues
    if found:
        said = ", ".join(name + lasting(ms) for name, ms in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        names = " ".join(name for name, _ in found[:_SHOWN])
        yield Finding("queues", "warn", f"paused: {said}{more}", f"raftsched queues resume {names}")
    else:
        yield Finding("queues", "ok", "none is paused")


def workers(facts: Facts) -> Iterator[Finding]:
    nodes = facts.cluster["nodes"]
    troubled = {n["id"]: n["trouble"] for n in nodes if n.get("trouble")}
    shut = [n["id"] for n in nodes if n.get("alive") and n.get("voter") and not n.get("session_open")]
    drained = [n["id"] for n in nodes if n.get("drained")]
    if troubled:
        says = "starts no runs: " + "; ".join(f"{node}: {why}" for node, why in troubled.items())
        do = "give it more (ulimit -u, -n; TasksMax; memory; disk), or end what it waits for"
        yield Finding("workers", "warn", says, do, tuple(troubled))
    if shut:
        do = "its log says why; after a restart of the machine it waits until the old session's time is over"
        yield Finding("workers", "warn", f"no session, so no runs: {', '.join(shut)}", do, tuple(shut))
    if drained:
        do = f"raftsched nodes undrain {' '.join(drained)}"
        yield Finding("workers", "warn", f"drained: {', '.join(drained)}", do, tuple(drained))
    if not troubled and not shut and not drained:
        running = sum(n.get("running") or 0 for n in nodes)
        yield Finding("workers", "ok", f"{running} of {_slots(facts)} slots of nodes are taken")


def remote_workers(facts: Facts) -> Iterator[Finding]:
    limit = facts.worker_ttl_ms / 2
    silent = [one for one in facts.workers if one.silent_ms is not None and one.silent_ms > limit]
    troubled = [one for one in facts.workers if one.trouble]
    if silent:
        said = ", ".join(f"{one.name}{lasting(one.silent_ms)}" for one in silent[:_SHOWN])
        do = f"look at their machines: they have to reach a node every {format_duration(facts.worker_ttl_ms // 4)}"
        yield Finding("remote-workers", "warn", f"{len(silent)} silent: {said}", do)
    if troubled:
        said = "; ".join(f"{one.name}: {one.trouble}" for one in troubled[:_SHOWN])
        do = "give it more (ulimit -u, -n; TasksMax; memory; disk), or end what it waits for"
        yield Finding("remote-workers", "warn", f"starts no runs: {said}", do)
    if facts.workers and not silent and not troubled:
        yield Finding("remote-workers", "ok", f"{len(facts.workers)}, all heard of lately")


def placement(facts: Facts) -> Iterator[Finding]:
    unplaceable = _most(facts, UNPLACEABLE)
    if unplaceable:
        do = "raftsched runs list --state WAITING, then runs explain of one: it names what is missing"
        yield Finding("placement", "warn", f"{unplaceable:,} runs fit no node", do)
    else:
        yield Finding("placement", "ok", "there is a node for every run")


def backlog(facts: Facts) -> Iterator[Finding]:
    waiting = facts.waiting
    count = f"{waiting:,} instances wait"
    if waiting > max(100, 4 * _slots(facts)):
        do = "more slots (raftsched nodes slots), more workers, or fewer jobs; see raftsched queues list"
        yield Finding("backlog", "warn", count, do)
    else:
        yield Finding("backlog", "ok", count)


def slots(facts: Facts) -> Iterator[Finding]:
    """Judges nodes and remote workers together, as the node says that sees the most."""
    there = max((sum(v for _, v in labelled(samples, SLOTS)) for samples in facts.samples.values()), default=0.0)
    taken = max((sum(v for _, v in labelled(samples, RUNNING)) for samples in facts.samples.values()), default=0.0)
    if not any(facts.samples.values()):
        return
    says = f"{int(taken):,} of {int(there):,} are taken"
    if facts.waiting and taken >= there:
        do = "more slots (raftsched nodes slots) or workers (raftsched worker), or shorter jobs"
        yield Finding("slots", "warn", f"{says}, and runs wait", do)
    else:
        yield Finding("slots", "ok", says)


def waits(facts: Facts) -> Iterator[Finding]:
    oldest = _by(facts, OLDEST, "queue")
    stopped = {queue for queue, value in _by(facts, QUEUE_PAUSED, "queue").items() if value}
    long = sorted(((s, q) for q, s in oldest.items() if s > WAIT_S and q not in stopped), reverse=True)
    if long:
        said = ", ".join(f"{queue} {format_duration(int(s) * 1000)}" for s, queue in long[:_SHOWN])
        do = "raftsched runs explain of it says for what; more slots or workers, or a higher limit of the queue"
        yield Finding("waits", "warn", f"the longest in a queue: {said}", do)
    elif any(facts.samples.values()):
        yield Finding("waits", "ok", f"none for more than {format_duration(WAIT_S * 1000)}, but in paused queues")


def late(facts: Facts) -> Iterator[Finding]:
    """Judges by the node that has counted most: all count what they apply."""
    samples = max(facts.samples.values(), key=lambda one: lately(one, "fires"), default={})
    overdue_s = facts.samples.get(facts.cluster.get("leader") or "", {}).get(OVERDUE, 0.0)
    if overdue_s > OVERDUE_S and not facts.cluster.get("paused"):
        do = "the log of the leader says what holds it; raftsched cluster transfer hands leadership to another node"
        yield Finding("late", "warn", f"what is due has not been made{lasting(int(overdue_s) * 1000)}", do)
        return
    made, slow = int(lately(samples, "fires")), int(lately(samples, "late_fires"))
    started, behind = int(lately(samples, "starts")), int(lately(samples, "late_starts"))
    if slow >= SLOW_LEAST and slow > SLOW_SHARE * made:
        do = (
            "the leader does not keep up: look at commits, flushes, elections and its machine (raftsched cluster terms)"
        )
        yield Finding("late", "warn", f"{slow:,} of {made:,} runs within 15 minutes were made more than 1s late", do)
    elif behind >= SLOW_LEAST and behind > SLOW_SHARE * started:
        do = "they wait: raftsched runs explain of one says for what; more slots or workers, or a higher limit"
        yield Finding("late", "warn", f"{behind:,} of {started:,} runs within 15 minutes started more than 1m late", do)
    elif made or started:
        yield Finding("late", "ok", f"{made:,} were made and {started:,} started within 15 minutes, hardly any late")


def dead_letters(facts: Facts) -> Iterator[Finding]:
    dead = _most(facts, DEAD)
    more = int(max((lately(samples, "dead_letters") for samples in facts.samples.values()), default=0))
    if dead:
        says = f"{dead:,}" + (f", {more:,} more within 15 minutes" if more > 0 else "")
        yield Finding("dead-letters", "warn", says, "raftsched dlq list; then dlq requeue or dlq purge")
    else:
        yield Finding("dead-letters", "ok", "none")


def failing(facts: Facts) -> Iterator[Finding]:
    ended = _by_lately(facts, "ended")
    failed = _by_lately(facts, "failed")
    bad = {
        namespace: (int(failed.get(namespace, 0)), int(count))
        for namespace, count in ended.items()
        if namespace != _SYSTEM and count > FAILING_LEAST and failed.get(namespace, 0) > FAILING_SHARE * count
    }
    if bad:
        said = ", ".join(f"{name} {f:,} of {count:,}" for name, (f, count) in sorted(bad.items())[:_SHOWN])
        first = min(bad)
        do = f"raftsched runs list -N {first} --state FAILED names the jobs, raftsched jobs revisions their changes"
        yield Finding("failing", "warn", f"attempts that failed within 15 minutes: {said}", do)
    elif ended:
        yield Finding("failing", "ok", "in no namespace more than half of the attempts")


def webhooks(facts: Facts) -> Iterator[Finding]:
    active = _by(facts, ACTIVE, "webhook")
    failing_ones = {n: v for n, v in _by(facts, FAILURES, "webhook").items() if v >= WEBHOOK_FAILURES and active.get(n)}
    dropped = {name: count for name, count in _by_lately(facts, "dropped").items() if count}
    if failing_ones:
        said = ", ".join(f"{name} {int(count)} in a row" for name, count in sorted(failing_ones.items())[:_SHOWN])
        do = (
            f"raftsched webhooks deliveries {min(failing_ones)} shows the errors; mend the receiver, then webhooks test"
        )
        yield Finding("webhooks", "warn", f"not delivered: {said}", do)
    if dropped:
        said = ", ".join(f"{name} {int(count):,}" for name, count in sorted(dropped.items())[:_SHOWN])
        do = "its receiver is too slow: mend it, or narrow the events that the webhook asks for"
        yield Finding("webhooks", "warn", f"not sent within 15 minutes, for too many waited: {said}", do)
    deaf = {
        name: s
        for name, s in _by(facts, FAILING, "webhook").items()
        if s > FAILING_S and active.get(name) and name not in failing_ones
    }
    if deaf:
        said = ", ".join(name + lasting(int(s) * 1000) for name, s in sorted(deaf.items())[:_SHOWN])
        do = f"raftsched webhooks deliveries {min(deaf)} shows the errors; mend the receiver, then webhooks test"
        yield Finding("webhooks", "warn", f"nothing was delivered: {said}", do)
    slow = sorted(((s, n) for n, s in _by(facts, UNSENT, "webhook").items() if s > UNSENT_S and active.get(n)))[::-1]
    if slow:
        said = ", ".join(f"{name} {format_duration(int(s) * 1000)}" for s, name in slow[:_SHOWN])
        do = "its receiver answers too slowly, or max_running is too low for it: raftsched webhooks edit --help"
        yield Finding("webhooks", "warn", f"the longest that a notification waits to be sent: {said}", do)
    gone = sorted(name for name, value in _by(facts, GONE, "webhook").items() if value)
    if gone:
        do = f"its receiver answered 410: raftsched webhooks edit {gone[0]} --active, or webhooks delete"
        yield Finding("webhooks", "warn", f"nothing is sent to {', '.join(gone[:_SHOWN])}", do)
    if active and not (failing_ones or dropped or deaf or slow or gone):
        yield Finding("webhooks", "ok", f"{len(active)}, and none fails")


def _slots(facts: Facts) -> int:
    return sum(n.get("slots") or 0 for n in facts.cluster["nodes"])


def _most(facts: Facts, name: str) -> int:
    return int(max((found.get(name, 0.0) for found in facts.samples.values()), default=0.0))


def _by(facts: Facts, name: str, label: str) -> dict[str, float]:
    """Returns the greatest that any node says, by a label."""
    found: dict[str, float] = {}
    for samples in facts.samples.values():
        for labels, value in labelled(samples, name):
            found[labels.get(label, "")] = max(value, found.get(labels.get(label, ""), value))
    return found


def _by_lately(facts: Facts, of: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for samples in facts.samples.values():
        for labels, value in labelled(samples, LATELY):
            if labels.get("of") == of:
                found[labels["name"]] = max(value, found.get(labels["name"], 0.0))
    return found


CHECKS = (
    *(paused, queues, workers, remote_workers, placement, backlog, slots, waits, late),
    *(dead_letters, failing, webhooks),
)
