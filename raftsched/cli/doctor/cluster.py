"""The checks of `doctor` that ask the nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from raftsched.cli.doctor.finding import DISK_FAIL, DISK_WARN, Finding
from raftsched.cli.terminal.progress import size_text

if TYPE_CHECKING:
    from raftsched.client.http import Client

LAG = 1_000  # entries
DAYS_LEFT = "raftsched_tls_certificate_days_left"
DAYS_WARN = 14
WAITING = 1_000  # instances: no more are counted
NODE_WAIT_S = 5.0
_SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})? ([0-9.e+-]+|NaN)")


def look_at_cluster(client: Client) -> Iterator[Finding]:
    from raftsched.client.errors import ClientError

    try:
        cluster = client.get("/v1/cluster")
    except ClientError as error:
        if error.code == "locked":
            yield Finding(
                "access", "fail", error.detail, "on the machine of a node: raftsched tokens bootstrap --data DIR"
            )
        elif error.status in (401, 403):
            yield Finding("access", "fail", error.detail, "say who asks: RAFTSCHED_TOKEN, --token, or a context")
        else:
            yield Finding("reachable", "fail", error.detail, "is a node running? say --server URL, or 'raftsched dev'")
        return
    answers, silent = _ask_each(client, cluster)
    yield _reachable(cluster, answers, silent)
    if answers and not any(answers.values()):
        do = "ask with the token of a viewer for all namespaces; disks and certificates were not looked at"
        yield Finding("metrics", "warn", "no node tells its metrics to this token", do)
    yield _leader(cluster)
    yield from _quorum(cluster)
    yield _versions(cluster)
    yield _lag(cluster)
    try:
        yield _clocks(cluster, client.get("/v1/cluster/settings"))
        yield from _disks(answers)
        yield from _certificates(answers)
        yield _paused(cluster)
        yield _nodes(cluster)
        yield _access(cluster, client.get("/v1/cluster/access"))
        yield _plain(cluster)
        yield from _work(answers, client)
    except ClientError as error:
        if error.code != "unreachable" and error.status not in (401, 403, 503):
            raise
        yield Finding("answers", "warn", error.detail, "the checks that need this were left out; run it again")


def _ask_each(client: Client, cluster: Mapping[str, Any]) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Returns samples of /metrics of each node (none where that is refused), and the nodes that do not answer."""
    from raftsched.client.errors import ClientError
    from raftsched.client.http import Client as Http
    from raftsched.client.servers import parse_servers

    answers: dict[str, dict[str, float]] = {}
    silent = []
    for node in cluster["nodes"]:
        try:
            if not node.get("http"):
                raise ClientError("unreachable", "unknown")
            asked = Http(parse_servers(node["http"]), timeout=NODE_WAIT_S, token=client.token, trust=client.trust)
            answers[node["id"]] = _samples(asked.request("GET", "/metrics").body.decode("utf-8", "replace"))
        except (ClientError, ValueError) as error:
            if isinstance(error, ClientError) and error.status in (401, 403, 429):
                answers[node["id"]] = {}  # it answers; this token is not for what it says there
                continue
            silent.append(f"{node['id']} ({node.get('http') or 'address unknown'})")
    return answers, silent


def _access(cluster: Mapping[str, Any], access: Mapping[str, Any]) -> Finding:
    if access["required"]:
        return Finding("access", "ok", "requests need a token")
    if all(_is_local(str(node.get("http") or "")) for node in cluster["nodes"]):
        return Finding("access", "ok", "open, to this machine only")
    says = "open: whoever reaches a node that was started with --open may run programs there; others are locked"
    return Finding("access", "warn", says, "raftsched tokens bootstrap --data DIR, on the machine of a node")


def _plain(cluster: Mapping[str, Any]) -> Finding:
    addresses = {node["id"]: str(node.get("http") or "") for node in cluster["nodes"]}
    plain = [node for node, http in addresses.items() if not http.startswith("https://") and not _is_local(http)]
    if plain:
        do = "--tls-cert and --tls-key for the node; with a proxy in front, let nobody else reach its port"
        return Finding("plain HTTP", "warn", f"beyond its own machine: {', '.join(plain)}; tokens can be read", do)
    return Finding("plain HTTP", "ok", "nowhere beyond a node's own machine")


def _is_local(address: str) -> bool:
    host = address.removeprefix("https://").rpartition(":")[0].strip("[]")
    return host in ("", "localhost", "::1") or host.startswith("127.")


def _samples(text: str) -> dict[str, float]:
    """Returns the samples of the Prometheus text format; with labels, the key is all that is in front of the number."""
    found = {}
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is not None:
            found[line.rpartition(" ")[0]] = float(match[3])
    return found


def _reachable(cluster: Mapping[str, Any], answers: Mapping[str, Any], silent: list[str]) -> Finding:
    total = len(cluster["nodes"])
    if silent:
        do = "is the process running, and can this machine reach its HTTP port? its log says more"
        return Finding("reachable", "warn", f"{len(answers)} of {total} nodes answer, not {', '.join(silent)}", do)
    return Finding("reachable", "ok", f"all {total} nodes answer" if total > 1 else "the node answers")


def _leader(cluster: Mapping[str, Any]) -> Finding:
    if cluster.get("leader"):
        return Finding("leader", "ok", f"{cluster['leader']}, term {cluster['term']}")
    why = cluster.get("waits_for") or "none at the moment"
    return Finding(
        "leader", "fail", why, "a majority of the members has to run and to reach one another; see their logs"
    )


def _quorum(cluster: Mapping[str, Any]) -> Iterator[Finding]:
    voters = [n for n in cluster["nodes"] if n.get("voter")]
    alive = [n for n in voters if n.get("alive")]
    majority = len(voters) // 2 + 1
    spare = len(alive) - majority
    says = f"{len(alive)} of {len(voters)} voting members are connected, {majority} are needed"
    down = ", ".join(n["id"] for n in voters if not n.get("alive"))
    if spare < 0:
        yield Finding("quorum", "fail", says, f"start {down}")
    elif len(voters) < 3:
        yield Finding("quorum", "warn", says, "three members go on when one is lost: raftsched cluster members --help")
    elif spare == 0:
        yield Finding("quorum", "warn", f"{says}; no other may be lost", f"bring {down or 'another one'} back")
    elif len(voters) % 2 == 0:
        yield Finding("quorum", "warn", says, "an even number survives no more losses than one less: add or remove one")
    else:
        yield Finding("quorum", "ok", f"{says}; {spare} more may be lost")
    learning = [n["id"] for n in cluster["nodes"] if not n.get("voter")]
    back = [w["id"] for w in cluster.get("waiting", ()) if w.get("why") == "disk-went-back"]
    waiting = [w["id"] for w in cluster.get("waiting", ()) if w["id"] not in back]
    if back:
        says = f"the disk of {', '.join(back)} went back to an earlier state, or two processes run on copies of it"
        do = "start it with an empty data directory, then raftsched cluster members replace " + " or ".join(back)
        yield Finding("members", "fail", says, do)
    elif waiting:
        do = "let them in, or stop them: raftsched cluster members"
        yield Finding("members", "warn", f"{', '.join(waiting)} ask to be let in", do)
    elif learning and cluster.get("leader"):
        yield Finding("members", "warn", f"{', '.join(learning)} catch up and do not vote yet", "wait until they do")
    else:
        yield Finding("members", "ok", "nobody waits to be let in")


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
    behind = [(n["lag"], n["id"]) for n in cluster["nodes"] if (n.get("lag") or 0) > LAG]
    if behind:
        says = ", ".join(f"{node} by {lag:,}" for lag, node in sorted(behind, reverse=True))
        return Finding("lag", "warn", f"entries behind: {says}", "is its disk or its network slow, is it overloaded?")
    return Finding("lag", "ok", f"no node is more than {LAG:,} entries behind")


def _clocks(cluster: Mapping[str, Any], settings: Mapping[str, Any]) -> Finding:
    from raftsched.quantities import parse_duration

    limit = parse_duration(settings["clock_limit"])
    offsets = {n["id"]: n["clock_offset_ms"] for n in cluster["nodes"] if n.get("clock_offset_ms") is not None}
    if not offsets:
        do = "ask again when there is a leader that answers: it measures the clocks of the others"
        return Finding("clocks", "warn", "they were not measured", do)
    node, worst = max(offsets.items(), key=lambda one: abs(one[1]))
    says = f"{node} is off by {worst:.0f} ms"
    do = "synchronise the clocks of the machines (chrony, systemd-timesyncd)"
    if abs(worst) > limit:
        return Finding("clocks", "fail", f"{says}, more than clock_limit ({limit} ms)", do)
    if abs(worst) > limit / 2:
        return Finding("clocks", "warn", f"{says}, clock_limit is {limit} ms", do)
    return Finding("clocks", "ok", f"at most {abs(worst):.0f} ms apart")


def _disks(answers: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
    worst: tuple[str, str, float] | None = None
    for node, samples in answers.items():
        free, store = samples.get("raftsched_disk_free_bytes"), samples.get("raftsched_store_bytes", 0.0)
        if free is None:
            continue
        if free < DISK_FAIL:
            do = f"make room on {node}: below {size_text(DISK_FAIL)} it refuses writes"
            yield Finding("disk", "fail", f"{node} has {size_text(free)} free", do)
        elif free < max(DISK_WARN, 2 * store):
            do = f"make room on {node}: a copy of the store ({size_text(store)}) for others or a backup needs it"
            yield Finding("disk", "warn", f"{node} has {size_text(free)} free", do)
        elif worst is None or free < worst[2]:
            worst = (node, size_text(store), free)
    if worst is not None:
        yield Finding("disk", "ok", f"{worst[0]} has {size_text(worst[2])} free, its store takes {worst[1]}")


def _certificates(answers: Mapping[str, Mapping[str, float]]) -> Iterator[Finding]:
    """Checks the certificates of the nodes that speak TLS to users."""
    found = sorted((s[DAYS_LEFT], node) for node, s in answers.items() if DAYS_LEFT in s)
    if not found:
        return
    days, node = found[0]
    do = f"put a new certificate in place of the old one on {node}: it is read again by itself"
    if days <= 0:
        yield Finding("certificates", "fail", f"that of {node} has expired", do)
    elif days < DAYS_WARN:
        yield Finding("certificates", "warn", f"that of {node} expires in {days:.1f} days", do)
    else:
        yield Finding("certificates", "ok", f"the first one to expire, of {node}, has {days:.0f} days left")


def _paused(cluster: Mapping[str, Any]) -> Finding:
    if cluster.get("paused"):
        return Finding("paused", "warn", "the cluster is paused, nothing is started", "raftsched cluster resume")
    return Finding("paused", "ok", "no")


def _nodes(cluster: Mapping[str, Any]) -> Finding:
    drained = [n["id"] for n in cluster["nodes"] if n.get("drained")]
    shut = [n["id"] for n in cluster["nodes"] if n.get("alive") and n.get("voter") and not n.get("session_open")]
    troubled = [f"{n['id']}: {n['trouble']}" for n in cluster["nodes"] if n.get("trouble")]
    if troubled:
        do = "give it more (ulimit -u, -n; TasksMax; memory; disk), or end what it waits for"
        yield_ = "starts no runs: "
        return Finding("workers", "warn", yield_ + "; ".join(troubled), do)
    if shut:
        do = "its log says why; after a restart of the machine it waits until the old session's time is over"
        return Finding("workers", "warn", f"no session, so no runs: {', '.join(shut)}", do)
    if drained:
        return Finding(
            "workers", "warn", f"drained: {', '.join(drained)}", f"raftsched nodes undrain {' '.join(drained)}"
        )
    slots = sum(n.get("slots") or 0 for n in cluster["nodes"])
    running = sum(n.get("running") or 0 for n in cluster["nodes"])
    return Finding("workers", "ok", f"{running} of {slots} slots are taken")


def _work(answers: Mapping[str, Mapping[str, float]], client: Client) -> Iterator[Finding]:
    def most(name: str) -> int:
        return int(max((samples.get(name, 0.0) for samples in answers.values()), default=0.0))

    unplaceable = most("raftsched_instances_unplaceable")
    if unplaceable:
        do = "raftsched instances list --state WAITING says which label or handler is missing"
        yield Finding("placement", "warn", f"{unplaceable:,} runs fit no node", do)
    else:
        yield Finding("placement", "ok", "there is a node for every run")
    waiting = sum(1 for _ in client.items("/v1/instances", {"state": "WAITING"}, WAITING))
    slots = sum(node.get("slots") or 0 for node in client.get("/v1/cluster")["nodes"])
    count = f"{waiting:,}{'+' if waiting == WAITING else ''} instances wait"
    if waiting > max(100, 4 * slots):
        yield Finding(
            "backlog", "warn", count, "more slots (nodes slots), more nodes, or fewer jobs; see 'queues list'"
        )
    else:
        yield Finding("backlog", "ok", count)
    shut = [q["name"] for q in client.items("/v1/queues", {}, WAITING) if q["paused"]]
    if shut:
        yield Finding(
            "queues", "warn", f"paused: {', '.join(shut[:5])}", f"raftsched queues resume {' '.join(shut[:5])}"
        )
    else:
        yield Finding("queues", "ok", "none is paused")
    dead = most("raftsched_dead_letters")
    if dead:
        do = "raftsched dlq list; then dlq requeue or dlq purge"
        yield Finding("dead letters", "warn", f"{dead:,}", do)
    else:
        yield Finding("dead letters", "ok", "none")
