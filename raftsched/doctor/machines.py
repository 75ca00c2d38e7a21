"""Checks the machines that nodes run on, by what the nodes report of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from raftsched.doctor.checks import Finding, State
from raftsched.doctor.facts import Facts
from raftsched.doctor.samples import AVAILABLE, FILES, MEMORY, NODE, STALLED, SWAPPED, SYNCHRONISED, labelled
from raftsched.quantities import size_text
from raftsched.system.machine import GONE_AT_RESTART, OF_NETWORK

FILES_FAIL, FILES_WARN = 1_024, 8_192  # descriptors
AVAILABLE_SHARE = 0.05  # of memory
SWAPPED_BYTES = 64 << 20  # of a node's memory
STALLED_SHARE = 0.1  # of a minute
CLOCKS_DO = "synchronise the clocks of the machines (chrony, systemd-timesyncd)"

# What nodes say of themselves that has checks of its own
_JUDGED = ("zones", "zone_files", "file_system", "limits", "jobs_as")

_EVERY = "default"  # of users: for each namespace that the node does not name
_SHOWN = 5  # namespaces


def clocks(facts: Facts) -> Iterator[Finding]:
    nodes = facts.cluster["nodes"]
    offsets = {n["id"]: n["clock_offset_ms"] for n in nodes if n.get("clock_offset_ms") is not None}
    if not offsets:
        do = "ask again when there is a leader that answers: it measures the clocks of the others"
        yield Finding("clocks", "warn", "they were not measured", do)
        return
    node, most = max(offsets.items(), key=lambda one: abs(one[1]))
    limit = facts.clock_limit_ms
    says = f"{node} is off by {most:.0f} ms"
    if abs(most) > limit:
        yield Finding("clocks", "fail", f"{says}, more than clock_limit ({limit} ms)", CLOCKS_DO, (node,))
    elif abs(most) > limit / 2:
        yield Finding("clocks", "warn", f"{says}, clock_limit is {limit} ms", CLOCKS_DO, (node,))
    else:
        yield Finding("clocks", "ok", f"at most {abs(most):.0f} ms apart")


def clock_service(facts: Facts) -> Iterator[Finding]:
    said = {node: samples[SYNCHRONISED] for node, samples in facts.samples.items() if SYNCHRONISED in samples}
    alone = tuple(node for node, kept in said.items() if not kept)
    if alone:
        says = f"nobody keeps the clock of {', '.join(alone)} right, as its kernel has heard"
        yield Finding("clock-service", "warn", says, "start chrony or systemd-timesyncd there", alone)
    elif said:
        yield Finding("clock-service", "ok", "a time service does, where the kernel may be asked")


def time_zones(facts: Facts) -> Iterator[Finding]:
    versions, files = _by_label(facts, "zones"), _by_label(facts, "zone_files")
    found = versions if len(versions) > 1 else files
    if len(found) > 1:
        do = "bring the package tzdata (the system's, or Python's) to the newest on all nodes, and restart them"
        says = _each(found) if found is versions else f"files differ, whatever their version says: {_each(files)}"
        yield Finding("time-zones", "warn", says, do, tuple(node for ids in found.values() for node in ids))
    elif versions or files:
        yield Finding("time-zones", "ok", next(iter(versions or files)))


def alike(facts: Facts) -> Iterator[Finding]:
    said = {node: labels for node, samples in facts.samples.items() for labels, _ in labelled(samples, NODE)}
    names = sorted({name for labels in said.values() for name in labels if name not in _JUDGED})
    differ = []
    for name in names:
        found = _by_label(facts, name)
        if len(found) > 1:
            differ.append(f"{name}: {_each(found)}")
    if differ:
        yield Finding("alike", "warn", "; ".join(differ), "start all nodes with the same, one after the other")
    elif len(said) > 1:
        yield Finding("alike", "ok", f"as far as these go: {', '.join(names)}")


def memory(facts: Facts) -> Iterator[Finding]:
    least: tuple[float, str] | None = None
    well = True
    for node, samples in facts.samples.items():
        total, available = samples.get(MEMORY, 0.0), samples.get(AVAILABLE, 0.0)
        if not total:
            continue
        least = min(least or (available, node), (available, node))
        waits = samples.get(STALLED, 0.0)
        trouble = []
        if available < AVAILABLE_SHARE * total:
            trouble.append(f"has {size_text(available)} of {size_text(total)} left")
        if samples.get(SWAPPED, 0.0) > SWAPPED_BYTES:
            trouble.append(f"is swapped out with {size_text(samples[SWAPPED])} of its own")
        if waits > STALLED_SHARE:
            trouble.append(f"has a machine that waited for memory in {waits:.0%} of the last minute")
        if trouble:
            well = False
            do = f"fewer slots (raftsched nodes slots {node} N), limits.memory in jobs, --memory-max, or more memory"
            yield Finding("memory", "warn", f"{node} {', '.join(trouble)}", do, (node,))
    if least is not None and well:
        yield Finding("memory", "ok", f"{least[1]} has {size_text(least[0])} left", nodes=(least[1],))


def open_files(facts: Facts) -> Iterator[Finding]:
    said = sorted((samples[FILES], node) for node, samples in facts.samples.items() if FILES in samples)
    if said:
        most, node = said[0]
        yield judged_files(int(most), f"{node} may open ", (node,))


def judged_files(most: int, words: str = "", nodes: tuple[str, ...] = ()) -> Finding:
    """Returns the finding for so many descriptors."""
    state: State = "ok" if most >= FILES_WARN else "warn" if most >= FILES_FAIL else "fail"
    do = f"raise it for the node: ulimit -Hn {FILES_WARN}, or LimitNOFILE={FILES_WARN} in its systemd unit"
    return Finding("open-files", state, f"{words}{most:,}", "" if state == "ok" else do, nodes)


def file_systems(facts: Facts) -> Iterator[Finding]:
    found = _by_label(facts, "file_system")
    well = True
    for kind, ids in found.items():
        finding = judged_file_system(kind, f"{', '.join(ids)}: ", tuple(ids))
        if finding.state != "ok":
            well = False
            yield finding
    if found and well:
        yield Finding("file-system", "ok", _each(found))


def judged_file_system(kind: str, words: str = "", nodes: tuple[str, ...] = ()) -> Finding:
    """Returns the finding for a kind of file system."""
    if kind in GONE_AT_RESTART:
        says = f"{words}{kind}: gone when the machine restarts"
        return Finding("file-system", "fail", says, "use a directory on a disk (--data)", nodes)
    if kind in OF_NETWORK:
        do = "use a local disk (--data): LMDB maps its file, and locks of a network file system do not hold"
        return Finding("file-system", "fail", f"{words}{kind}", do, nodes)
    if kind == "overlay":
        do = "mount a volume for the data"
        return Finding("file-system", "warn", f"{words}overlay: it goes with the container", do, nodes)
    return Finding("file-system", "ok", f"{words}{kind}", nodes=nodes)


def run_limits(facts: Facts) -> Iterator[Finding]:
    """Warns where they differ: one way or the other may be meant, but not both."""
    found = _by_label(facts, "limits")
    if len(found) > 1:
        do = "give all nodes a control group of their own (systemd: Delegate=cpu memory pids): docs/processes.md#limits"
        nodes = tuple(found.get("each process", ()))
        yield Finding("run-limits", "warn", f"limits of memory hold for {_each(found)}", do, nodes)
    elif found:
        yield Finding("run-limits", "ok", f"limits of memory hold for {next(iter(found))}")


def programs(facts: Facts) -> Iterator[Finding]:
    found = _by_label(facts, "jobs_as")
    held = tuple(found.get("held back", ()))
    if held:
        offer = "offers" if len(held) == 1 else "offer"
        says = f"{', '.join(held)} {offer} http and call only, for jobs would run as the node's own user"
        do = "start it with --run-as default=USER, or with --executors http,call"
        yield Finding("programs", "warn", says, do, held)
    own = tuple(found.get("the node's user", ()))
    if own:
        runs = "runs jobs as its" if len(own) == 1 else "run jobs as their"
        says = f"{', '.join(own)} {runs} own user: whoever may create one can read the cluster key, and so is an admin"
        do = "give them a user of their own (--run-as default=USER), or leave programs to workers (--executors http)"
        yield Finding("programs", "warn", says, do, own)
    unfit = _by_label(facts, "no_python")
    for users, nodes in unfit.items():
        run = "runs" if len(nodes) == 1 else "run"
        says = f"{', '.join(nodes)} {run} no python and call jobs as {users}, who cannot start the node's Python"
        do = "its log says why: let them read it (chmod o+rx), start it with another Python, or --run-as another user"
        yield Finding("programs", "warn", says, do, tuple(nodes))
    if found and not held and not own and not unfit:
        yield Finding("programs", "ok", f"run as {_each(found)}")


def run_users(facts: Facts) -> Iterator[Finding]:
    """Warns where namespaces share a user, and only the user's processes are counted: one that forks without an end
    makes the runs of the others fail."""
    nodes = [node for node in _by_label(facts, "limits").get("each process", ()) if node in facts.users]
    shared: dict[str, tuple[set[str], list[str]]] = {}
    for node in nodes:
        for user, sharing in _who_shares(facts.users[node], facts.namespaces).items():
            found = shared.setdefault(user, (set(), []))
            found[0].update(sharing)
            found[1].append(node)
    if not shared:
        bound = "processes are counted for each user" if nodes else "processes are counted for each run"
        yield Finding("run-users", "ok", f"{bound}, or nothing else runs beside")
        return
    said = []
    for user, (namespaces, ids) in sorted(shared.items()):
        names = sorted(namespaces)
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        said.append(
            f"{user or 'the user of the node'} runs jobs of {', '.join(names[:_SHOWN])}{more} ({' '.join(ids)})"
        )
    says = f"{'; '.join(said)}: without control groups a fork bomb of one makes the runs of the others fail"
    do = "give each namespace a user of its own (--run-as NAMESPACE=USER), or the node a control group (Delegate=yes)"
    yield Finding("run-users", "warn", says, do, tuple(sorted({node for _, ids in shared.values() for node in ids})))


def _who_shares(announced: Sequence[str], namespaces: Sequence[str]) -> dict[str, list[str]]:
    """Returns users, each with the namespaces whose jobs may run as it, where these are several. "" is the node's."""
    by_namespace: dict[str, list[str]] = {}
    for one in announced:
        namespace, _, user = one.partition(":")
        by_namespace.setdefault(namespace, []).append(user)
    found: dict[str, list[str]] = {}
    for namespace in namespaces:
        for user in by_namespace.get(namespace) or by_namespace.get(_EVERY) or [""]:
            found.setdefault(user, []).append(namespace)
    return {user: names for user, names in found.items() if len(names) > 1}


def _by_label(facts: Facts, label: str) -> dict[str, list[str]]:
    """Returns the nodes by what they say, without those that say nothing or do not know."""
    found: dict[str, list[str]] = {}
    for node, samples in facts.samples.items():
        for labels, _ in labelled(samples, NODE):
            if labels.get(label) not in (None, "", "unknown"):
                found.setdefault(labels[label], []).append(node)
    return dict(sorted(found.items()))


def _each(found: dict[str, list[str]]) -> str:
    return ", ".join(f"{value} ({' '.join(ids)})" for value, ids in found.items())


CHECKS = (clocks, clock_service, time_zones, alike, memory, open_files, file_systems, run_limits, run_users, programs)
