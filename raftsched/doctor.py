"""The checks of a cluster: what is wrong or soon will be, and what to do, of what its nodes tell.

`raftsched doctor` asks the nodes from where it runs, and a node asks the others for `GET /v1/cluster/doctor`; both let
`examine` judge what they were told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from raftsched.quantities import size_text

State = Literal["ok", "warn", "fail"]
STATES: tuple[State, ...] = ("ok", "warn", "fail")  # from good to bad

DISK_FAIL = 64 << 20  # bytes: a node refuses writes below this
DISK_WARN = 1 << 30
LAG = 1_000  # entries
DAYS_LEFT = "raftsched_tls_certificate_days_left"
DAYS_WARN = 14
WAITING = 1_000  # instances: no more are counted
_SHOWN = 5  # queues
_FREE, _STORE = "raftsched_disk_free_bytes", "raftsched_store_bytes"
_UNPLACEABLE, _DEAD = "raftsched_instances_unplaceable", "raftsched_dead_letters"
_LOOKED_AT = frozenset({DAYS_LEFT, _FREE, _STORE, _UNPLACEABLE, _DEAD})
_SAMPLE = re.compile(r"([a-z_]+) ([0-9.e+-]+)", re.ASCII)

Samples = Mapping[str, Mapping[str, float]]  # of the metrics of each node that answers; none where they are refused


@dataclass(frozen=True)
class Finding:
    """The result of one check, and what to do about it."""

    check: str
    state: State
    detail: str
    do: str = ""  # empty when all is well
    nodes: tuple[str, ...] = ()  # that it is about


class Facts(Protocol):
    """The answers to what a check asks when it needs it. A call may raise: the findings so far were made then."""

    def clock_limit_ms(self) -> int: ...

    def tokens_required(self) -> bool: ...

    def waiting(self) -> int:
        """Instances that wait, WAITING at most."""

    def paused_queues(self) -> Sequence[str]: ...


def worst(findings: Sequence[Finding]) -> State:
    return max((finding.state for finding in findings), key=STATES.index)


def samples_of(text: str) -> dict[str, float]:
    """Returns the samples that are looked at here, of the Prometheus text format."""
    matches = (_SAMPLE.fullmatch(line) for line in text.splitlines() if line.partition(" ")[0] in _LOOKED_AT)
    return {match[1]: float(match[2]) for match in matches if match is not None}


def examine(
    cluster: Mapping[str, Any], samples: Samples, silent: Mapping[str, str], facts: Facts, asker: str
) -> Iterator[Finding]:
    """Yields a finding for each check. `cluster`: the answer of `GET /v1/cluster`. `silent`: the address of each node
    whose API did not answer to `asker`."""
    yield _reachable(cluster, samples, silent, asker)
    if samples and not any(samples.values()):
        do = "ask with the token of a viewer for all namespaces; disks and certificates were not looked at"
        yield Finding("metrics", "warn", "no node tells its metrics to this token", do)
    yield _leader(cluster)
    yield _quorum(cluster)
    yield _members(cluster)
    yield _versions(cluster)
    yield _lag(cluster)
    yield _clocks(cluster, facts.clock_limit_ms())
    yield from _disks(samples)
    yield from _certificates(samples)
    yield _paused(cluster)
    yield _workers(cluster)
    yield _access(cluster, facts.tokens_required())
    yield _plain(cluster)
    yield _placement(samples)
    yield _backlog(cluster, facts.waiting())
    yield _queues(facts.paused_queues())
    yield _dead_letters(samples)


# ---------------------------------------------------------------- the members


def _reachable(cluster: Mapping[str, Any], samples: Samples, silent: Mapping[str, str], asker: str) -> Finding:
    total = len(cluster["nodes"])
    if silent:
        who = ", ".join(f"{node} ({address or 'address unknown'})" for node, address in silent.items())
        do = f"is the process running, and can {asker} reach its HTTP port? its log says more"
        return Finding("reachable", "warn", f"{len(samples)} of {total} nodes answer, not {who}", do, tuple(silent))
    return Finding("reachable", "ok", f"all {total} nodes answer" if total > 1 else "the node answers")


def _leader(cluster: Mapping[str, Any]) -> Finding:
    if cluster.get("leader"):
        return Finding("leader", "ok", f"{cluster['leader']}, term {cluster['term']}", nodes=(cluster["leader"],))
    why = cluster.get("waits_for") or "none at the moment"
    return Finding(
        "leader", "fail", why, "a majority of the members has to run and to reach one another; see their logs"
    )


def _quorum(cluster: Mapping[str, Any]) -> Finding:
    voters = [n for n in cluster["nodes"] if n.get("voter")]
    alive = [n for n in voters if n.get("alive")]
    majority = len(voters) // 2 + 1
    spare = len(alive) - majority
    says = f"{len(alive)} of {len(voters)} voting members are connected, {majority} are needed"
    gone = tuple(n["id"] for n in voters if not n.get("alive"))
    down = ", ".join(gone)
    if spare < 0:
        return Finding("quorum", "fail", says, f"start {down}", gone)
    if len(voters) < 3:
        do = "three members go on when one is lost: raftsched cluster members --help"
        return Finding("quorum", "warn", says, do, gone)
    if spare == 0:
        do = f"bring {down or 'another one'} back"
        return Finding("quorum", "warn", f"{says}; no other may be lost", do, gone)
    if len(voters) % 2 == 0:
        do = "an even number survives no more losses than one less: add or remove one"
        return Finding("quorum", "warn", says, do, gone)
    return Finding("quorum", "ok", f"{says}; {spare} more may be lost", nodes=gone)


def _members(cluster: Mapping[str, Any]) -> Finding:
    learning = [n["id"] for n in cluster["nodes"] if not n.get("voter")]
    back = [w["id"] for w in cluster.get("waiting", ()) if w.get("why") == "disk-went-back"]
    waiting = [w["id"] for w in cluster.get("waiting", ()) if w["id"] not in back]
    if back:
        says = f"the disk of {', '.join(back)} went back to an earlier state, or two processes run on copies of it"
        do = "start it with an empty data directory, then raftsched cluster members replace " + " or ".join(back)
        return Finding("members", "fail", says, do, tuple(back))
    if waiting:
        do = "let them in, or stop them: raftsched cluster members"
        return Finding("members", "warn", f"{', '.join(waiting)} ask to be let in", do, tuple(waiting))
    if learning and cluster.get("leader"):
        says = f"{', '.join(learning)} catch up and do not vote yet"
        return Finding("members", "warn", says, "wait until they do", tuple(learning))
    return Finding("members", "ok", "nobody waits to be let in")


def _versions(cluster: Mapping[str, Any]) -> Finding:
    found: dict[str, list[str]] = {}
    for node in cluster["nodes"]:
        if node.get("version"):
            found.setdefault(node["version"], []).append(node["id"])
    if len(found) > 1:
        says = "; ".join(f"{', '.join(ids)}: {version}" for version, ids in sorted(found.items()))
        return Finding("versions", "warn", says, "bring all nodes to the newest, one after the other")
    return Finding("versions", "ok", next(iter(found), "unknown"))


def _lag(cluster: Mapping[str, Any]) -> Finding:
    behind = sorted(((n["lag"], n["id"]) for n in cluster["nodes"] if (n.get("lag") or 0) > LAG), reverse=True)
    if behind:
        says = "entries behind: " + ", ".join(f"{node} by {lag:,}" for lag, node in behind)
        do = "is its disk or its network slow, is it overloaded?"
        return Finding("lag", "warn", says, do, tuple(node for _, node in behind))
    return Finding("lag", "ok", f"no node is more than {LAG:,} entries behind")


def _clocks(cluster: Mapping[str, Any], limit_ms: int) -> Finding:
    offsets = {n["id"]: n["clock_offset_ms"] for n in cluster["nodes"] if n.get("clock_offset_ms") is not None}
    if not offsets:
        do = "ask again when there is a leader that answers: it measures the clocks of the others"
        return Finding("clocks", "warn", "they were not measured", do)
    node, most = max(offsets.items(), key=lambda one: abs(one[1]))
    says = f"{node} is off by {most:.0f} ms"
    do = "synchronise the clocks of the machines (chrony, systemd-timesyncd)"
    if abs(most) > limit_ms:
        return Finding("clocks", "fail", f"{says}, more than clock_limit ({limit_ms} ms)", do, (node,))
    if abs(most) > limit_ms / 2:
        return Finding("clocks", "warn", f"{says}, clock_limit is {limit_ms} ms", do, (node,))
    return Finding("clocks", "ok", f"at most {abs(most):.0f} ms apart")


# ---------------------------------------------------------------- the nodes


def _disks(samples: Samples) -> Iterator[Finding]:
    least: tuple[str, str, float] | None = None
    for node, found in samples.items():
        free, store = found.get(_FREE), found.get(_STORE, 0.0)
        if free is None:
            continue
        if free < DISK_FAIL:
            do = f"make room on {node}: below {size_text(DISK_FAIL)} it refuses writes"
            yield Finding("disk", "fail", f"{node} has {size_text(free)} free", do, (node,))
        elif free < max(DISK_WARN, 2 * store):
            do = f"make room on {node}: a copy of the store ({size_text(store)}) for others or a backup needs it"
            yield Finding("disk", "warn", f"{node} has {size_text(free)} free", do, (node,))
        elif least is None or free < least[2]:
            least = (node, size_text(store), free)
    if least is not None:
        node, store_text, free = least
        yield Finding("disk", "ok", f"{node} has {size_text(free)} free, its store takes {store_text}", nodes=(node,))


def _certificates(samples: Samples) -> Iterator[Finding]:
    """Checks the certificates of the nodes that speak TLS to users."""
    found = sorted((s[DAYS_LEFT], node) for node, s in samples.items() if DAYS_LEFT in s)
    if not found:
        return
    days, node = found[0]
    do = f"put a new certificate in place of the old one on {node}: it is read again by itself"
    if days <= 0:
        yield Finding("certificates", "fail", f"that of {node} has expired", do, (node,))
    elif days < DAYS_WARN:
        yield Finding("certificates", "warn", f"that of {node} expires in {days:.1f} days", do, (node,))
    else:
        says = f"the first one to expire, of {node}, has {days:.0f} days left"
        yield Finding("certificates", "ok", says, nodes=(node,))


def _paused(cluster: Mapping[str, Any]) -> Finding:
    if cluster.get("paused"):
        return Finding("paused", "warn", "the cluster is paused, nothing is started", "raftsched cluster resume")
    return Finding("paused", "ok", "no")


def _workers(cluster: Mapping[str, Any]) -> Finding:
    troubled = {n["id"]: n["trouble"] for n in cluster["nodes"] if n.get("trouble")}
    shut = [n["id"] for n in cluster["nodes"] if n.get("alive") and n.get("voter") and not n.get("session_open")]
    drained = [n["id"] for n in cluster["nodes"] if n.get("drained")]
    if troubled:
        says = "starts no runs: " + "; ".join(f"{node}: {why}" for node, why in troubled.items())
        do = "give it more (ulimit -u, -n; TasksMax; memory; disk), or end what it waits for"
        return Finding("workers", "warn", says, do, tuple(troubled))
    if shut:
        do = "its log says why; after a restart of the machine it waits until the old session's time is over"
        return Finding("workers", "warn", f"no session, so no runs: {', '.join(shut)}", do, tuple(shut))
    if drained:
        do = f"raftsched nodes undrain {' '.join(drained)}"
        return Finding("workers", "warn", f"drained: {', '.join(drained)}", do, tuple(drained))
    running = sum(n.get("running") or 0 for n in cluster["nodes"])
    return Finding("workers", "ok", f"{running} of {_slots(cluster)} slots are taken")


def _slots(cluster: Mapping[str, Any]) -> int:
    return sum(n.get("slots") or 0 for n in cluster["nodes"])


def _access(cluster: Mapping[str, Any], required: bool) -> Finding:
    if required:
        return Finding("access", "ok", "requests need a token")
    if all(_is_local(str(node.get("http") or "")) for node in cluster["nodes"]):
        return Finding("access", "ok", "open, to this machine only")
    says = "open: whoever reaches a node that was started with --open may run programs there; others are locked"
    return Finding("access", "warn", says, "raftsched tokens bootstrap --data DIR, on the machine of a node")


def _plain(cluster: Mapping[str, Any]) -> Finding:
    addresses = {node["id"]: str(node.get("http") or "") for node in cluster["nodes"]}
    plain = [node for node, http in addresses.items() if not http.startswith("https://") and not _is_local(http)]
    if plain:
        says = f"beyond its own machine: {', '.join(plain)}; tokens can be read"
        do = "--tls-cert and --tls-key for the node; with a proxy in front, let nobody else reach its port"
        return Finding("plain HTTP", "warn", says, do, tuple(plain))
    return Finding("plain HTTP", "ok", "nowhere beyond a node's own machine")


def _is_local(address: str) -> bool:
    host = address.removeprefix("https://").rpartition(":")[0].strip("[]")
    return host in ("", "localhost", "::1") or host.startswith("127.")


# ---------------------------------------------------------------- the work


def _placement(samples: Samples) -> Finding:
    unplaceable = _most(samples, _UNPLACEABLE)
    if unplaceable:
        do = "raftsched instances list --state WAITING says which label or handler is missing"
        return Finding("placement", "warn", f"{unplaceable:,} runs fit no node", do)
    return Finding("placement", "ok", "there is a node for every run")


def _backlog(cluster: Mapping[str, Any], waiting: int) -> Finding:
    count = f"{waiting:,}{'+' if waiting == WAITING else ''} instances wait"
    if waiting > max(100, 4 * _slots(cluster)):
        do = "more slots (nodes slots), more nodes, or fewer jobs; see 'queues list'"
        return Finding("backlog", "warn", count, do)
    return Finding("backlog", "ok", count)


def _queues(paused: Sequence[str]) -> Finding:
    if paused:
        do = f"raftsched queues resume {' '.join(paused[:_SHOWN])}"
        return Finding("queues", "warn", f"paused: {', '.join(paused[:_SHOWN])}", do)
    return Finding("queues", "ok", "none is paused")


def _dead_letters(samples: Samples) -> Finding:
    dead = _most(samples, _DEAD)
    if dead:
        return Finding("dead letters", "warn", f"{dead:,}", "raftsched dlq list; then dlq requeue or dlq purge")
    return Finding("dead letters", "ok", "none")


def _most(samples: Samples, name: str) -> int:
    return int(max((found.get(name, 0.0) for found in samples.values()), default=0.0))
