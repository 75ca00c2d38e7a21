"""The checks of log and disks: who lags, which flushes are slow, where room is short."""

from __future__ import annotations

from collections.abc import Iterator

from raftsched.doctor.access import is_local
from raftsched.doctor.checks import Finding, lasting
from raftsched.doctor.facts import Facts
from raftsched.doctor.samples import (
    BACKUP,
    BACKUP_INDEX,
    FREE,
    LATELY,
    LOG_ENTRIES,
    NODE,
    OUTPUT_STORE,
    STORE,
    STORE_FREE,
    UNCOMMITTED,
    UNCOPIED,
    UNSHIPPED,
    labelled,
    lately,
)
from raftsched.quantities import format_duration, size_text

DISK_FAIL = 64 << 20  # bytes: a node refuses writes below this
DISK_WARN = 1 << 30
SPARE = 64 << 20  # bytes: what is less is not worth a word
LAG = 1_000  # entries
UNCOPIED_S = UNSHIPPED_S = 900
BACKUP_MS = 26 * 3_600_000  # once a day, and some time for it
SLOW_SHARE = 0.01  # of what happened lately: as much as the 99th percentile of the alerts
SLOW_LEAST = 5
HANGS_S = 30  # that an entry waits for its commit, as the alert has it (deploy/prometheus/alerts.yml)
LOG_TIMES = 4  # of what is to be kept
LOG_LEAST = 100_000  # entries
_OF_OUTPUT = {"output": "output of runs", "copies": "copies of other nodes' output"}


def lag(facts: Facts) -> Iterator[Finding]:
    nodes = facts.cluster["nodes"]
    behind = sorted(((n["lag"], n["id"]) for n in nodes if (n.get("lag") or 0) > LAG), reverse=True)
    if behind:
        says = "entries behind: " + ", ".join(f"{node} by {count:,}" for count, node in behind)
        do = "is its disk or its network slow, is it overloaded? it catches up by itself, by a snapshot if need be"
        yield Finding("lag", "warn", says, do, tuple(node for _, node in behind))
    else:
        yield Finding("lag", "ok", f"no node is more than {LAG:,} entries behind")


def commits(facts: Facts) -> Iterator[Finding]:
    """Those that ended are counted: of one that does not end, it is asked how long it has taken by now."""
    hangs_s = max((samples.get(UNCOMMITTED, 0.0) for samples in facts.samples.values()), default=0.0)
    if hangs_s > HANGS_S:
        do = "look for a disk that hangs (raftsched_raft_write_under_way_seconds of the nodes), and stop its node"
        yield Finding("commits", "fail", f"nothing was committed{lasting(int(hangs_s) * 1000)}", do)
        return
    do = "compare the nodes' disks and the network; hand leadership to a faster one: raftsched cluster transfer"
    yield from _slow(facts, "commits", "took more than 500 ms to commit", do)


def flushes(facts: Facts) -> Iterator[Finding]:
    do = "look what else writes to that disk, and whether it is sound; if it leads: raftsched cluster transfer"
    yield from _slow(facts, "writes", "took the disk more than 250 ms", do, "flushes")


def _slow(facts: Facts, of: str, how: str, do: str, check: str = "") -> Iterator[Finding]:
    check = check or of
    total = 0
    slow: list[tuple[str, int, int]] = []
    for node, samples in facts.samples.items():
        count, late = int(lately(samples, of)), int(lately(samples, f"slow_{of}"))
        total += count
        if late >= SLOW_LEAST and late > SLOW_SHARE * count:
            slow.append((node, late, count))
    for node, late, count in slow:
        yield Finding(check, "warn", f"{late:,} of {count:,} writes of {node} within 15 minutes {how}", do, (node,))
    if total and not slow:
        yield Finding(check, "ok", f"hardly one of {total:,} within 15 minutes {how}")


def log(facts: Facts) -> Iterator[Finding]:
    most, well = 0, True
    for node, samples in facts.samples.items():
        entries = int(samples.get(LOG_ENTRIES, 0))
        kept = next((int(labels.get("log_keep_entries", 0)) for labels, _ in labelled(samples, NODE)), 0)
        most = max(most, entries)
        if kept and entries > max(LOG_TIMES * kept, LOG_LEAST):
            well = False
            do = (
                f"the log of {node} says why: checkpoints fail or take long, or its disk is full; restart it if nothing"
            )
            says = f"{node} has {entries:,} entries and is to keep {kept:,}"
            yield Finding("log", "warn", says, do, (node,))
    if well and most:
        yield Finding("log", "ok", f"{most:,} entries at most")


def room(facts: Facts) -> Iterator[Finding]:
    least: tuple[str, str, float] | None = None
    for node, found in facts.samples.items():
        free, store = found.get(FREE), found.get(STORE, 0.0)
        restarts = _given_back(node, store, found.get(STORE_FREE, 0.0))
        if free is None:
            continue
        if free < DISK_FAIL:
            do = f"make room on {node}: below {size_text(DISK_FAIL)} it refuses writes{restarts}"
            yield Finding("disk", "fail", f"{node} has {size_text(free)} free", do, (node,))
        elif free < max(DISK_WARN, 2 * store):
            do = (
                f"make room on {node}, or raftsched cluster settings set output_keep=1d: a copy of the store"
                f" ({size_text(store)}) for others or a backup needs it{restarts}"
            )
            yield Finding("disk", "warn", f"{node} has {size_text(free)} free", do, (node,))
        elif least is None or free < least[2]:
            least = (node, f"{size_text(store)}{restarts}", free)
    if least is not None:
        node, store_text, free = least
        yield Finding("disk", "ok", f"{node} has {size_text(free)} free, its store takes {store_text}", nodes=(node,))


def _given_back(node: str, store: float, free: float) -> str:
    """Returns what a restart gives back of a store most of which is free."""
    if free < SPARE or free <= store / 2:
        return ""
    return f"; {size_text(free)} of its store are free: a restart of {node} gives them back if the copy finds room"


def output_copies(facts: Facts) -> Iterator[Finding]:
    waiting = {
        node: samples[UNCOPIED] for node, samples in facts.samples.items() if samples.get(UNCOPIED, 0.0) > UNCOPIED_S
    }
    for node, seconds in waiting.items():
        do = f"no other member, or no object store, takes it: the log of {node} says which it asked, and what they said"
        says = f"{node} has output without one{lasting(int(seconds) * 1000)}"
        yield Finding("output-copies", "warn", says, do, (node,))
    if not waiting and any(UNCOPIED in samples for samples in facts.samples.values()):
        yield Finding("output-copies", "ok", "all that is to have one, but for the newest")


def output_files(facts: Facts) -> Iterator[Finding]:
    noted, lost = 0, False
    for node, samples in facts.samples.items():
        noted += any(labels.get("of") == "output_lost" for labels, _ in labelled(samples, LATELY))
        found = {words: int(lately(samples, "output_lost", of)) for of, words in _OF_OUTPUT.items()}
        says = ", ".join(f"{count:,} with {words}" for words, count in found.items() if count)
        if says:
            lost = True
            do = f"the log of {node} names them: find out what changes its data directory, or is mounted over it"
            yield Finding("output-files", "warn", f"{node} lost files within 15 minutes: {says}", do, (node,))
    if noted and not lost:
        yield Finding("output-files", "ok", "no file was removed from under a node within 15 minutes")


def output_store(facts: Facts) -> Iterator[Finding]:
    failing = tuple(node for node, samples in facts.samples.items() if samples.get(OUTPUT_STORE))
    if failing:
        do = f"the log of {failing[0]} says why: it needs to put, read, list and delete there"
        says = f"{', '.join(failing)} cannot use the object store that output has its second copies in"
        yield Finding("output-store", "warn", says, do, failing)
    elif any(OUTPUT_STORE in samples for samples in facts.samples.values()):
        yield Finding("output-store", "ok", "nodes can, where they have one")


def output_shipping(facts: Facts) -> Iterator[Finding]:
    """Judges nodes that ship output: of others there is nothing to say."""
    ships = {node: samples[UNSHIPPED] for node, samples in facts.samples.items() if UNSHIPPED in samples}
    waiting = {node: seconds for node, seconds in ships.items() if seconds > UNSHIPPED_S}
    for node, seconds in waiting.items():
        do = f"its receiver does not take it, or takes less than is printed: the log of {node} says what it answers"
        says = f"{node} has output that is not shipped{lasting(int(seconds) * 1000)}"
        yield Finding("output-shipping", "warn", says, do, (node,))
    given_up = {
        node: {
            why: size for why in ("refused", "deleted", "damaged") if (size := lately(samples, "output_dropped", why))
        }
        for node, samples in facts.samples.items()
    }
    for node, sizes in given_up.items():
        if sizes:
            says = ", ".join(f"{size_text(int(size))} {why}" for why, size in sizes.items())
            do = f"they are never shipped; the log of {node} says why"
            yield Finding("output-shipping", "warn", f"{node} gave up output within 15 minutes: {says}", do, (node,))
    if ships and not waiting and not any(given_up.values()):
        silent = len(facts.samples) - len(ships)
        says = "all of it, but for the newest" + (
            f"; {silent} of {len(facts.samples)} nodes ship nothing" if silent else ""
        )
        yield Finding("output-shipping", "ok", says)


def backup(facts: Facts) -> Iterator[Finding]:
    """Judges by what the cluster noted. Of one of an earlier level nodes know what they were told since they started.
    A cluster on one machine that needs no tokens is one to try things with."""
    never = {samples[BACKUP_INDEX] for samples in facts.samples.values() if BACKUP_INDEX in samples} == {0}
    newest_s = max((samples[BACKUP] for samples in facts.samples.values() if BACKUP in samples), default=0.0)
    age_ms = facts.now_ms - int(newest_s * 1000)
    to_try = not facts.tokens.required and all(is_local(str(n.get("http") or "")) for n in facts.cluster["nodes"])
    if not newest_s:
        yield Finding("backup", "ok", "no node was told of one since it started; raftsched backup run makes them")
    elif never and (age_ms <= BACKUP_MS or to_try):
        yield Finding("backup", "ok", "there was none yet; raftsched backup run makes them")
    elif never:
        do = "raftsched backup run makes them, by hand or as a job: docs/backups.md"
        yield Finding("backup", "warn", f"there was none{lasting(age_ms)}, since the cluster is there", do)
    elif age_ms > BACKUP_MS:
        do = "what should make them does not run, or fails: raftsched backup run, by hand, says why"
        yield Finding("backup", "warn", f"nobody has kept one{lasting(age_ms)}", do)
    else:
        yield Finding(
            "backup", "ok", f"all is kept elsewhere up to {format_duration(max(0, age_ms) // 60_000 * 60_000)} ago"
        )


CHECKS = (lag, commits, flushes, log, room, output_files, output_copies, output_store, output_shipping, backup)
