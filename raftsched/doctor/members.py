"""The checks of members: who answers, leads, votes, waits; which versions they have."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.doctor.checks import Finding, lasting
from raftsched.doctor.facts import Facts
from raftsched.doctor.samples import LATELY, LOG_INDEX, LOG_TERM, STRETCH, labelled, lately
from raftsched.lost_majority import ELSE, HEALTHY, SEE, Has, Lost, lost_majority
from raftsched.quantities import format_duration

ELECTIONS_MS = 15 * 60_000
ELECTIONS = 3  # within that
REFUSED = 10  # within what is lately
_WRONG = ("wrong-key", "tls", "malformed", "wrong-member")
APPLIED = "raftsched_raft_applied_index"
HELD_S = 0.25  # as the alert has it (deploy/prometheus/alerts.yml)


def reachable(facts: Facts) -> Iterator[Finding]:
    total, silent = len(facts.cluster["nodes"]), facts.silent
    if silent:
        who = ", ".join(f"{node} ({address or 'address unknown'})" for node, address in silent.items())
        says = f"{len(facts.samples)} of {total} nodes answer, not {who}"
        do = f"is the process running, and can {facts.asker} reach its HTTP port? its log says more"
        yield Finding("reachable", "warn", says, do, tuple(silent))
    else:
        yield Finding("reachable", "ok", f"all {total} nodes answer" if total > 1 else "the node answers")


def metrics(facts: Facts) -> Iterator[Finding]:
    mute = tuple(node for node, samples in facts.samples.items() if not samples)
    if mute:
        says = f"{', '.join(mute)} answers, and does not tell its metrics"
        do = "look at its log; disks, certificates and memory of it were not looked at"
        yield Finding("metrics", "warn", says, do, mute)


def leader(facts: Facts) -> Iterator[Finding]:
    cluster = facts.cluster
    if cluster.get("leader"):
        yield Finding("leader", "ok", f"{cluster['leader']}, term {cluster['term']}", nodes=(cluster["leader"],))
        return
    why = cluster.get("waits_for") or "none at the moment"
    lost = _lost(facts)
    do = lost.do if lost else f"a majority of the members has to run and to reach one another; see their logs. {ELSE}"
    yield Finding("leader", "fail", why, do)


def quorum(facts: Facts) -> Iterator[Finding]:
    nodes = facts.cluster["nodes"]
    voters = [n for n in nodes if n.get("voter")]
    if not voters:  # and no majority of them either
        mute = tuple(n["id"] for n in nodes if not n.get("alive"))
        do = f"start {', '.join(mute)}" if mute else "what the check leader says is what it waits for"
        says = f"{facts.asker} knows of no voting member: its cluster is not formed yet, or has not let it in"
        yield Finding("quorum", "fail", says, do, mute)
        return
    alive = [n for n in voters if n.get("alive")]
    majority = len(voters) // 2 + 1
    spare = len(alive) - majority
    says = f"{len(alive)} of {len(voters)} voting members are connected, {majority} are needed"
    gone = tuple(n["id"] for n in voters if not n.get("alive"))
    down = ", ".join(gone)
    if spare < 0:
        lost = _lost(facts)
        do = lost.do if lost else f"start {down}; where their disks are lost for good, empty no other: {SEE}"
        yield Finding("quorum", "fail", f"{says}: {lost.says}" if lost else says, do, gone)
    elif len(voters) < 3:
        do = "three members go on when one is lost: raftsched cluster members --help"
        yield Finding("quorum", "warn", says, do, gone)
    elif spare == 0:
        do = f"bring {down or 'another one'} back before anything else is restarted"
        yield Finding("quorum", "warn", f"{says}; no other may be lost", do, gone)
    elif len(voters) % 2 == 0:
        do = "an even number survives no more losses than one less: add or remove one (raftsched cluster members)"
        yield Finding("quorum", "warn", says, do, gone)
    else:
        yield Finding("quorum", "ok", f"{says}; {spare} more may be lost", nodes=gone)


def _lost(facts: Facts) -> Lost | None:
    return lost_majority(
        [facts.cluster],
        {
            node: Has(int(samples[APPLIED]), int(samples.get(LOG_INDEX, 0)), int(samples.get(LOG_TERM, 0)))
            for node, samples in facts.samples.items()
            if APPLIED in samples
        },
    )


def waiting(facts: Facts) -> Iterator[Finding]:
    cluster = facts.cluster
    learning = [n["id"] for n in cluster["nodes"] if not n.get("voter")]
    back = [w["id"] for w in cluster.get("waiting", ()) if w.get("why") == "disk-went-back"]
    asking = [w["id"] for w in cluster.get("waiting", ()) if w["id"] not in back]
    if back:
        says = f"the disk of {', '.join(back)} went back to an earlier state, or two processes run on copies of it"
        replace = "start it with an empty data directory, then raftsched cluster members replace " + " or ".join(back)
        lost = _lost(facts)
        do = lost.do if lost else f"{HEALTHY}: {replace}. {ELSE}"
        yield Finding("members", "fail", says, do, tuple(back))
    elif asking:
        lost = _lost(facts)
        do = lost.do if lost else "let them in, or stop them: raftsched cluster members"
        yield Finding("members", "fail" if lost else "warn", f"{', '.join(asking)} ask to be let in", do, tuple(asking))
    elif learning and cluster.get("leader"):
        says = f"{', '.join(learning)} catch up and do not vote yet"
        yield Finding("members", "warn", says, "wait until they do", tuple(learning))
    else:
        yield Finding("members", "ok", "nobody waits to be let in")


def moved(facts: Facts) -> Iterator[Finding]:
    away = {n["id"]: (n.get("raft"), n["raft_announced"]) for n in facts.cluster["nodes"] if n.get("raft_announced")}
    if away:
        says = ", ".join(f"{node} is at {new}, and the members have {old}" for node, (old, new) in away.items())
        do = (
            "the leader takes that over as soon as it and the member are connected, unless it is of a version before"
            " 0.3.0 (upgrade it) or the address is one that only the member's own machine reaches, or that of another"
            " member (--advertise-raft)"
        )
        yield Finding("moved", "warn", says, do, tuple(away))
    else:
        yield Finding("moved", "ok", "all members are where the members have them")


def elections(facts: Facts) -> Iterator[Finding]:
    count = sum(1 for ago in facts.elected_ms_ago if ago < ELECTIONS_MS)
    says = f"{count} leadership{'s' * (count != 1)} began within {format_duration(ELECTIONS_MS)}"
    if count > ELECTIONS:
        do = (
            "look in the nodes' logs why leaders step down: an overloaded machine, a disk that hangs, a lossy network;"
            " raftsched cluster terms names them"
        )
        yield Finding("elections", "warn", says, do)
    else:
        yield Finding("elections", "ok", says)


def raft_port(facts: Facts) -> Iterator[Finding]:
    """A member that is not connected, while others refuse keys or certificates, is likely to be who knocks."""
    refused = {
        node: {why: count for why in _WRONG if (count := int(lately(samples, "refused", why)))}
        for node, samples in facts.samples.items()
    }
    apart = tuple(n["id"] for n in facts.cluster["nodes"] if not n.get("alive"))
    suspect = apart and any(count for whys in refused.values() for why, count in whys.items() if why != "malformed")
    busy = {node: whys for node, whys in refused.items() if sum(whys.values()) > (0 if suspect else REFUSED)}
    if busy:
        said = (f"{node} refused {_counts(whys)}" for node, whys in busy.items())
        says = f"within 15 minutes {'; '.join(said)}"
        log = f"the log of {next(iter(busy))} names the hosts"
        do = f"{log}: mend a member's key or certificate, close the port to all others"
        if suspect:
            says += f"; {', '.join(apart)} is connected with nobody, and may be who has a wrong key or certificate"
            do = f"compare the cluster key and the certificate of {', '.join(apart)} with those of the others; {do}"
        yield Finding("raft-port", "warn", says, do, (*(apart if suspect else ()), *busy))
    elif any(facts.samples.values()):
        yield Finding("raft-port", "ok", "hardly any connection was refused lately")


def _counts(whys: dict[str, int]) -> str:
    return ", ".join(f"{count} ({why})" for why, count in whys.items())


def loop_held(facts: Facts) -> Iterator[Finding]:
    found = {node: samples[STRETCH] for node, samples in facts.samples.items() if STRETCH in samples}
    held = {node: seconds for node, seconds in found.items() if seconds > HELD_S}
    if held:
        says = ", ".join(f"{node} for {round(seconds * 1000):,} ms" for node, seconds in held.items())
        do = "look which request took so long, and whose it was; it should be reported"
        yield Finding("loop", "warn", f"one piece of work held {says}", do, tuple(held))
    elif found:
        most_ms = round(max(found.values()) * 1000)
        yield Finding("loop", "ok", f"no piece of work held a node for longer than {most_ms} ms")


def task_faults(facts: Facts) -> Iterator[Finding]:
    well = True
    for node, samples in facts.samples.items():
        counted = ((about, int(count)) for about, count in labelled(samples, LATELY) if about["of"] == "faults")
        faults = {about["name"]: count for about, count in counted if count}
        if faults:
            well = False
            says = ", ".join(f"{count} in {task}" for task, count in faults.items())
            do = f'the log of {node} has "met a fault" with the stack: report it'
            yield Finding("task-faults", "warn", f"{node} met faults within 15 minutes: {says}", do, (node,))
    if well and any(facts.samples.values()):
        yield Finding("task-faults", "ok", "no task met a fault lately")


# ---------------------------------------------------------------- versions


def versions(facts: Facts) -> Iterator[Finding]:
    found: dict[str, list[str]] = {}
    for node in facts.cluster["nodes"]:
        if node.get("version"):
            found.setdefault(node["version"], []).append(node["id"])
    nodes = len(found)
    for worker in facts.workers:
        if worker.version:
            found.setdefault(worker.version, []).append(f"worker {worker.name}")
    if len(found) > 1:
        says = "; ".join(f"{_some(ids)}: {version}" for version, ids in sorted(found.items()))
        do = (
            "bring all nodes to the newest, one after the other"
            if nodes > 1
            else "bring the workers to the version of the nodes"
        )
        yield Finding("versions", "warn", says, f"{do}: docs/upgrading.md")
    else:
        yield Finding("versions", "ok", next(iter(found), "unknown"))


def level(facts: Facts) -> Iterator[Finding]:
    cluster = facts.cluster
    now, held = cluster.get("level") or 0, cluster.get("level_held")
    known = {node["id"]: node.get("level") for node in cluster["nodes"]}
    newest = max([facts.newest_level, now, *(one for one in known.values() if one is not None)])
    if held:
        since = lasting(facts.pauses.level_held_for_ms)
        says = f"it is held at {now}{since}" + (
            f", {newest} is known" if newest > now else ", and nothing is held back"
        )
        do = "raftsched cluster upgrade --no-hold, when you are content with the new version"
        yield Finding("level", "warn", says, do)
    elif newest > now:
        behind = tuple(node for node, one in known.items() if one is None or one < newest)
        says = f"it is {now}, and {newest} is known" + (f"; {', '.join(behind)} keeps it there" if behind else "")
        do = "start the node with the new version, or remove it from the members: raftsched cluster upgrade"
        yield Finding(
            "level", "warn", says, do if behind else "it rises within seconds while there is a leader", behind
        )
    else:
        yield Finding("level", "ok", f"{now}, the newest that any node knows")


def _some(ids: list[str], most: int = 5) -> str:
    return ", ".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")


CHECKS = (
    reachable,
    metrics,
    leader,
    quorum,
    waiting,
    moved,
    elections,
    raft_port,
    loop_held,
    task_faults,
    versions,
    level,
)
