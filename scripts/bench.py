"""Benchmarks of a local cluster: three node processes and the load on this machine, fsync on.

With no PART it is `against`: raftsched and those of etcd, BullMQ and Dkron that are installed do the same work in
turns, and each figure that a peer has too is printed with its ratio and the bar asked for. `scripts/bench --against
dkron` chooses the peers.

Each figure is printed as one JSON line on stdout; progress goes to stderr, and at the end a Markdown table of the
figures beside their bars. `scripts/bench PART --help` says what a part measures and how; `scripts/bench table FILE ...`
makes the table of lines that were kept with --json. Exit code 1: something that must hold did not (an acknowledged
write is lost, say, or the fault caused an election), or the benchmark could not be run; the last line on stderr says
which. How fast is fast enough is for the reader to judge: what else runs on the machine counts, and so does the disk.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.benches import (
    bulk,
    catchup,
    create,
    distances,
    failover,
    figures,
    graph,
    keys,
    lateness,
    lives,
    page,
    periodic,
    restart,
    restore,
    run,
    scale,
    slowdisk,
    snapshot,
    soak,
    starts,
    sustained,
    table,
    tls,
    workers,
)
from scripts.benches.event_loop import Loop, event_loop
from scripts.benches.figures import note
from scripts.benches.peers import against, ratios
from scripts.benches.ratio import compare
from tests.support.cluster import Cluster


def started(*flags: str) -> Cluster:
    note("starting three nodes ...")
    return Cluster(3, flags=flags)


def marking(*flags: str) -> Cluster:
    """It has the jobs that write down when they begin."""
    note("starting three nodes ...")
    return Cluster(3, flags=flags, pythonpath=starts.JOBS)


def _slots(given: argparse.Namespace) -> list[str]:
    return ["--slots", str(given.slots)] if given.slots else []


# ---------------------------------------------------------------- parts: False means that something did not hold


def creates(loop: Loop, given: argparse.Namespace) -> bool:
    with started() as cluster:
        loop(create.bench_create(cluster, given.kinds, given.through, given.seconds))
    return True


def sealed_creates(loop: Loop, given: argparse.Namespace) -> bool:
    raft = given.at == "raft"
    with started(*(["--insecure-raft"] if raft else [])) as plain, Cluster(3, tls=not raft) as sealed:
        loop(tls.bench_tls(given.at, plain, sealed, given.rounds, given.seconds))
    return True


def runs(loop: Loop, given: argparse.Namespace) -> bool:
    with marking(*_slots(given), "--handlers", "noops") as cluster:
        loop(run.bench_runs(cluster, given.handlers, given.count))
    return True


def limits_by_key(loop: Loop, given: argparse.Namespace) -> bool:
    with started() as cluster:
        loop(keys.bench_keys(cluster, given.keys, given.rounds, given.seconds))
    return True


def bursts(loop: Loop, given: argparse.Namespace) -> bool:
    with marking(*_slots(given)) as cluster:
        held: bool = loop(run.bench_burst(cluster, given.count, given.lead))
    return held


def periods(loop: Loop, given: argparse.Namespace) -> bool:
    held = True
    for layout in given.layouts:
        with marking(*_slots(given)) as cluster:
            held = loop(periodic.bench_periodic(cluster, layout, given.count, given.seconds)) and held
    return held


def steady_load(loop: Loop, given: argparse.Namespace) -> bool:
    plan = sustained.Plan(
        given.per_second, given.seconds, given.lead, given.keep, given.kill == "yes", given.down, given.window
    )
    with marking(*_slots(given)) as cluster:
        held: bool = loop(sustained.bench_sustained(cluster, plan))
    return held


def soaks(loop: Loop, given: argparse.Namespace) -> bool:
    plan = sustained.Plan(given.per_second, 60 * given.minutes, given.lead, given.keep, False, 0.0, 0.0)
    with marking("--log-keep-bytes", soak.LOG_BYTES, *_slots(given)) as cluster:
        held: bool = loop(soak.bench_soak(cluster, plan, given.change, 60 * given.settle, given.most / 100))
    return held


def backups(loop: Loop, given: argparse.Namespace) -> bool:
    with started() as cluster:
        loop(snapshot.bench_snapshot(cluster, given.jobs, given.per_second))
    return True


def restores(loop: Loop, given: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="raftsched-") as directory:
        restore.bench_restore(Path(directory), given.jobs, given.entries)
    return True


def stored_jobs(loop: Loop, given: argparse.Namespace) -> bool:
    effort = scale.Effort(given.seconds, given.starts, given.start_seconds, given.rounds)
    with started() as cluster:
        loop(scale.bench_scale(cluster, given.jobs, effort))
    return True


def killed_leaders(loop: Loop, given: argparse.Namespace) -> bool:
    with started() as cluster:
        lost: int = loop(failover.bench_failover(cluster, given.kills))
    return lost == 0


def restarts(loop: Loop, given: argparse.Namespace) -> bool:
    if "node" in given.parts:
        with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
            restart.bench_node_start(Path(directory), given.starts)
    if "cluster" in given.parts:
        with started() as cluster:
            loop(restart.bench_killed_cluster(cluster, given.kills))
    return True


def slow_disks(loop: Loop, given: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
        shim = slowdisk.SlowFlushes(Path(directory))
        cluster = started()
        cluster.environment |= shim.environment
        with cluster:
            calm: bool = loop(
                slowdisk.bench_slowdisk(cluster, shim, given.delay_ms, given.seconds, given.rounds, given.through)
            )
    return calm


def far_apart(loop: Loop, given: argparse.Namespace) -> bool:
    plan = distances.Plan(tuple(given.rtt_ms), given.seconds, given.runs, given.kills)
    cluster = Cluster(3, flags=("--election-timeout", given.election_timeout))
    with distances.apart(cluster) as proxies:
        note("starting three nodes ...")
        with cluster:
            held: bool = loop(distances.bench_distances(cluster, proxies, plan))
    note(distances.rows(figures.lines()))
    return held


def node_behind(loop: Loop, given: argparse.Namespace) -> bool:
    with started() as cluster:
        calm: bool = loop(catchup.bench_catchup(cluster, given.jobs, given.per_second, given.seconds))
    return calm


def many_at_once(loop: Loop, given: argparse.Namespace) -> bool:
    with started() as cluster:
        held: bool = loop(bulk.bench_bulk(cluster, given.jobs, given.per_second))
    return held


def workflows(loop: Loop, given: argparse.Namespace) -> bool:
    with started("--slots", str(given.slots)) as cluster:
        held: bool = loop(graph.bench_graph(cluster, given.jobs, given.width, given.run_ms))
    return held


def whole_lives(loop: Loop, given: argparse.Namespace) -> bool:
    plan = lives.Plan(given.per_second, given.seconds, given.lead, given.keep, given.stored)
    lives.bench_lives(plan, given.turn_ms)
    return True


def remote_workers(loop: Loop, given: argparse.Namespace) -> bool:
    held = True
    for wanted in given.parts:
        if wanted in ("rate", "late"):
            with marking() as own, started("--no-run") as remote:
                if wanted == "rate":
                    held = loop(workers.bench_rate(own, remote, given.count, given.rounds)) and held
                else:
                    held = loop(workers.bench_late(own, remote, given.starts, given.rounds)) and held
            continue
        with started("--no-run") as cluster:
            if wanted == "idle":
                held = loop(workers.bench_idle(cluster, given.workers, given.seconds)) and held
            else:
                held = loop(workers.bench_killed(cluster, given.kills)) and held
    return held


def pages(loop: Loop, given: argparse.Namespace) -> bool:
    # Half of what a run prints more than this is kept: then a page has as much as it can get.
    with started() as cluster:
        cluster.leader().request("PATCH", "/v1/cluster/settings", {"output_max_bytes": 16 << 20})
        return page.bench_page(cluster, loop, given.parts, given.jobs, given.seconds)


def kept_table(loop: Loop, given: argparse.Namespace) -> bool:
    for file in given.files:
        for line in file.read_text().splitlines():
            figures.keep(json.loads(line))
    return True


def late_starts(loop: Loop, given: argparse.Namespace) -> bool:
    held = True
    for kill in (False, True) if given.kill == "both" else (given.kill == "only",):
        with marking() as cluster:
            file = cluster.directory / "marks"
            held = loop(lateness.bench_lateness(cluster, file, given.per_second, given.seconds, kill)) and held
    return held


# ---------------------------------------------------------------- command line


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="scripts/bench", usage="scripts/bench [-h] [PART] ...", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parts = top.add_subparsers(prog=top.prog, required=True, metavar="PART")  # words_of adds one that is left out

    def part(
        name: str, words: str, measure: Callable[[Loop, argparse.Namespace], bool], *modules: ModuleType
    ) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = parts.add_parser(
            name,
            help=words,
            description="\n".join(str(module.__doc__) for module in modules),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(measure=measure)
        made.add_argument("--json", type=Path, metavar="FILE", help="append the JSON lines to this file, too")
        made.add_argument("--markdown", action="store_true", help="the table on stdout, in place of the JSON lines")
        return made

    def slots(made: argparse.ArgumentParser) -> None:
        made.add_argument("--slots", type=int, default=0, help="slots per node (default: the node's)")

    made = part("create", "create rates: single jobs, batches, the client; leader and follower", creates, create)
    made.add_argument("--seconds", type=float, default=5.0, help="length of each measurement (5; there are 16)")
    made.add_argument("--kinds", nargs="+", choices=create.KINDS, default=create.KINDS, help="which (all)")
    made.add_argument("--through", nargs="+", choices=create.THROUGH, default=create.THROUGH, help="whom (both)")

    made = part("run", "runs from create to succeeded: python, concurrent, http, exec, shell", runs, run)
    made.add_argument("--handlers", nargs="+", choices=run.COUNTS, default=list(run.COUNTS), help="which (all)")
    made.add_argument("--count", type=int, default=0, help="runs of each (python 10,000, http 5,000, others 2,000)")
    slots(made)

    made = part("keys", "create and run rates with limits by key against without", limits_by_key, keys)
    made.add_argument("--keys", type=int, default=10_000, help="how many (10,000)")
    made.add_argument("--rounds", type=int, default=5, help="how often each is measured (5)")
    made.add_argument("--seconds", type=float, default=5.0, help="length of each measurement of creates (5)")

    made = part("burst", "how late jobs start that are due at one instant", bursts, run)
    made.add_argument("--count", type=int, default=10_000, help="how many (10,000)")
    made.add_argument("--lead", type=float, default=10.0, help="seconds from creating them to the instant (10)")
    slots(made)

    made = part("periodic", "how late jobs start that are due every 10 s", periods, periodic)
    made.add_argument("--count", type=int, default=10_000, help="how many (10,000)")
    made.add_argument("--seconds", type=float, default=60.0, help="for how long (60)")
    made.add_argument("--layouts", nargs="+", choices=periodic.LAYOUTS, default=periodic.LAYOUTS, help="which (both)")
    slots(made)

    made = part("sustained", "one-shots at a steady rate for long, the leader killed halfway", steady_load, sustained)
    made.add_argument("--per-second", type=int, default=1_157, help="one-shots a second (1,157: 100 million a day)")
    made.add_argument("--seconds", type=float, default=600.0, help="for how long (600)")
    made.add_argument("--lead", type=float, default=5.0, help="seconds from creating a job to its time (5)")
    made.add_argument("--keep", type=float, default=60.0, help="seconds that history and events are kept (60)")
    made.add_argument("--kill", choices=("yes", "no"), default="yes", help="kill -9 of the leader halfway (yes)")
    made.add_argument("--down", type=float, default=3.0, help="seconds until it is started again (3)")
    made.add_argument("--window", type=float, default=10.0, help="seconds after the kill that count as failover (10)")
    slots(made)

    made = part("soak", "one-shots for hours, other leaders all the time: does anything grow?", soaks, soak)
    made.add_argument("--per-second", type=int, default=300, help="one-shots a second (300)")
    made.add_argument("--minutes", type=float, default=120.0, help="for how long (120)")
    made.add_argument("--change", type=float, default=300.0, help="seconds until another node leads (300)")
    made.add_argument("--settle", type=float, default=15.0, help="minutes that are not looked at (15)")
    made.add_argument("--most", type=float, default=5.0, help="percent that may be more in the end (5)")
    made.add_argument("--lead", type=float, default=5.0, help="seconds from creating a job to its time (5)")
    made.add_argument("--keep", type=float, default=60.0, help="seconds that history and events are kept (60)")
    slots(made)

    made = part("tls", "creates with TLS and without, alternately", sealed_creates, tls)
    made.add_argument("--at", choices=tls.AT, default="api", help="what is sealed: the API, or what nodes say (api)")
    made.add_argument("--rounds", type=int, default=5, help="of each (5)")
    made.add_argument("--seconds", type=float, default=4.0, help="length of each measurement (4)")

    made = part("snapshot", "a backup, and creates meanwhile", backups, snapshot)
    made.add_argument("--jobs", type=int, default=100_000, help="how many are stored (100,000)")
    made.add_argument("--per-second", type=int, default=200, help="single creates a second meanwhile (200)")

    made = part("restore", "a node from a backup, to its first start", restores, restore)
    made.add_argument("--jobs", type=int, default=1_000_000, help="how many are in it (1,000,000)")
    made.add_argument("--entries", type=int, default=20_000, help="of the log, applied behind it (20,000)")

    made = part("scale", "how cost grows with the number of jobs stored", stored_jobs, scale)
    sizes = [1_000, 100_000, 1_000_000, 3_000_000]
    made.add_argument("--jobs", type=int, nargs="+", default=sizes, help="how many (1000 100000 1000000 3000000)")
    made.add_argument("--seconds", type=float, default=4.0, help="length of each create measurement (4)")
    made.add_argument("--starts", type=int, default=100, help="starts a second (100)")
    made.add_argument("--start-seconds", type=float, default=10.0, help="for how long (10)")
    made.add_argument("--rounds", type=int, default=3, help="restarts, and failovers, at each number (3)")

    made = part("failover", "kill -9 of the leader to the next write", killed_leaders, failover)
    made.add_argument("--kills", type=int, default=50, help="how many leaders are killed (50; about 2 s each)")

    made = part("restart", "a node's start, and kill -9 of all nodes to the next write", restarts, restart)
    made.add_argument("--parts", nargs="+", choices=restart.PARTS, default=restart.PARTS, help="which (all)")
    made.add_argument("--starts", type=int, default=10, help="node: starts of each kind (10)")
    made.add_argument("--kills", type=int, default=10, help="cluster: how often all are killed (10)")

    made = part("slowdisk", "create rate while each flush takes longer", slow_disks, slowdisk)
    made.add_argument("--delay-ms", type=float, default=5.0, help="added to each flush and each O_DSYNC write (5)")
    made.add_argument("--seconds", type=float, default=4.0, help="length of each measurement (4)")
    made.add_argument("--rounds", type=int, default=3, help="alternating measurements without and with the delay (3)")
    made.add_argument("--through", choices=("leader", "follower"), default="leader", help="node to ask (leader)")

    made = part("distances", "nodes that are far apart: creates, starts, failover by round trip", far_apart, distances)
    made.add_argument(
        "--rtt-ms", type=float, nargs="+", default=[0, 10, 40, 80, 150, 300], help="round trips (0 10 40 80 150 300)"
    )
    made.add_argument("--seconds", type=float, default=20.0, help="of creates, at the leader and at a follower (20)")
    made.add_argument("--runs", type=int, default=400, help="how many start at random moments (400)")
    made.add_argument("--kills", type=int, default=5, help="of leaders, for each round trip (5)")
    made.add_argument("--election-timeout", default="1s", help="of all nodes (1s)")

    made = part("lateness", "how late jobs start, healthy and across kill -9 of the leader", late_starts, lateness)
    made.add_argument("--per-second", type=int, default=200, help="starts a second (200)")
    made.add_argument("--seconds", type=float, default=120.0, help="for how long (120)")
    made.add_argument("--kill", choices=("no", "only", "both"), default="both", help="kill the leader halfway (both)")

    made = part("catchup", "a node that missed a million jobs comes back", node_behind, catchup)
    made.add_argument("--jobs", type=int, default=1_000_000, help="how many it missed (1,000,000: two minutes)")
    made.add_argument("--per-second", type=int, default=1_000, help="single creates a second meanwhile (1,000)")
    made.add_argument("--seconds", type=float, default=20.0, help="length of the measurement without the node (20)")

    made = part("lives", "what a store writes for one-shots, by the length of its turns; no nodes", whole_lives, lives)
    made.add_argument("--turn-ms", type=int, nargs="+", default=[5, 10, 20, 40], help="turns of (5 10 20 40)")
    made.add_argument("--stored", type=int, default=0, help="jobs beside, due another day (0)")
    made.add_argument("--per-second", type=int, default=1_157, help="one-shots a second (1,157)")
    made.add_argument("--lead", type=float, default=8.0, help="seconds from creating a job to its time (8)")
    made.add_argument("--keep", type=float, default=8.0, help="seconds that history and events are kept (8)")
    made.add_argument("--seconds", type=float, default=10.0, help="measured, of the jobs' time (10)")

    words = "raftsched against other installed systems; the part when none is named"
    against.options(part("against", words, against.bench_against, against))

    words = "processor time of this checkout against a commit or a wheel, in alternating pairs"
    compare.options(part("ratio", words, compare.bench_ratio, compare))

    made = part("table", "the Markdown table of JSON lines that were kept", kept_table, table)
    made.add_argument("files", type=Path, nargs="+", metavar="FILE", help="of JSON lines")

    made = part("page", "the page in Chromium: paint, size, changes, a long list, live output, creates", pages, page)
    made.add_argument("--parts", nargs="+", choices=page.PARTS, default=page.PARTS, help="which (all)")
    made.add_argument("--jobs", type=int, default=100_000, help="how many are in the list (100,000)")
    made.add_argument("--seconds", type=float, default=5.0, help="length of each measurement of creates (5)")

    made = part("workers", "remote workers: idle, their rate, how late they start, killed", remote_workers, workers)
    made.add_argument("--parts", nargs="+", choices=workers.PARTS, default=workers.PARTS, help="which (all)")
    made.add_argument("--workers", type=int, default=200, help="idle: how many fake ones (200)")
    made.add_argument("--seconds", type=float, default=600.0, help="idle: for how long, the kills included (600)")
    made.add_argument("--count", type=int, default=5_000, help="rate: runs of each measurement (5,000)")
    made.add_argument("--rounds", type=int, default=5, help="rate, late: of each, alternately (5)")
    made.add_argument("--starts", type=int, default=300, help="late: how many, ten a second (300)")
    made.add_argument("--kills", type=int, default=10, help="killed: how many workers (10; about 20 s each)")

    made = part("bulk", "pages of long lists, and one action on all jobs", many_at_once, bulk)
    made.add_argument("--jobs", type=int, default=100_000, help="how many there are (100,000)")
    made.add_argument("--per-second", type=int, default=200, help="single creates a second meanwhile (200)")

    made = part("graph", "a workflow of many jobs: how much longer than its longest way", workflows, graph)
    made.add_argument("--jobs", type=int, default=1_000, help="how many (1,000)")
    made.add_argument("--width", type=int, default=100, help="jobs of a stage, at most 100 (100)")
    made.add_argument("--run-ms", type=float, default=500.0, help="how long each run takes (500)")
    made.add_argument("--slots", type=int, default=50, help="slots per node (50)")
    return top


def words_of(arguments: Sequence[str]) -> list[str]:
    """The arguments with the part first: with none, or where options come first, it is `against`, whose peers may be
    said with `--against` as well."""
    words = list(arguments)
    if words and (not words[0].startswith("-") or words[0] in ("-h", "--help")):
        return words
    for at, word in enumerate(words):
        if word == "--against":
            return ["against", *words[at + 1 : at + 2], *words[:at], *words[at + 2 :]]
        if word.startswith("--against="):
            return ["against", word.removeprefix("--against="), *words[:at], *words[at + 1 :]]
    return ["against", *words]


def main() -> int:
    given = parser().parse_args(words_of(sys.argv[1:]))
    held = False
    with ExitStack() as files:
        outputs = [] if given.markdown else [sys.stdout]
        if given.json is not None:
            outputs.append(files.enter_context(given.json.open("a")))
        figures.write_to(*outputs)
        try:
            held = given.measure(event_loop(), given)
            if not held:
                note("scripts/bench: something that must hold did not; see the figures above")
        except (RuntimeError, AssertionError) as error:
            note(f"scripts/bench: {error}")
        finally:  # also of what was measured before Ctrl-C
            each = given.measure is not against.bench_against
            print_tables(sys.stdout if given.markdown else sys.stderr, figures.lines(), each=each)
    return 0 if held else 1


def print_tables(out: TextIO, lines: Sequence[figures.Line], *, each: bool) -> None:
    """Prints the figures beside their bars, and the ratios if peers were measured. Not `each`: no figures that have a
    ratio, for they come once a round."""
    compared = any(line["bench"] == ratios.BENCH for line in lines)
    tables = [table.markdown(lines)] if each or not compared else []
    print("\n\n".join(filter(None, (*tables, compare.markdown(lines), ratios.markdown(lines)))), file=out)


if __name__ == "__main__":
    sys.exit(main())
