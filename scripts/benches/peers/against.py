"""raftsched against installed peers, in one run on this machine: the same work, one system at a time, in turns.

Peers are etcd, which only stores, bullmq and celery on Redis, apscheduler and pgboss on PostgreSQL, and dkron, of which
creates alone are measured. All write to the disk before they acknowledge; what else each runs with is in
scripts/benches/peers/README.md. A peer that is not installed is skipped, with how it is installed. With no PEERS, those
of etcd, bullmq and dkron that are installed; that is what `scripts/bench` alone does.

Parts: create (one a request, 1, 32 and 256 in flight; for raftsched also through its client), bulk (batches of 200),
run (no-op jobs, from the first create to the last end), burst (that many due at one instant: the last start), periodic
(that many entries, each every 10 s, spread: how late). Nodes, servers and load share the cores of this machine.

In each round raftsched and then each peer has its turn at a part, each with fresh servers, and alone on the machine. At
the end a table has, for each figure of raftsched and each peer that has the figure too: the median of both with the
least and the most of all rounds, the ratio of the medians (raftsched's divided by the peer's), its spread (the least
and the most ratio of a single round), and the bar asked for. With creates one at a time, the p50 is compared too.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from scripts.benches import create, figures, periodic, run, starts
from scripts.benches.event_loop import Loop
from scripts.benches.figures import Line, emit, note
from scripts.benches.machine import Load
from scripts.benches.peers.installed import CREATES, PEERS, NotBuilt, Peer, Places
from scripts.benches.peers.ratios import BENCH, ratios
from tests.support.cluster import Cluster

PARTS = (*CREATES, "run", "burst", "periodic")
USUAL_PARTS = (*CREATES, "run")
USUAL_PEERS = ("etcd", "bullmq", "dkron")
# Parts that one set of servers serves, one after the other; each group is measured on its own.
GROUPS = (CREATES, ("run",), ("burst",), ("periodic",))
BATCH_IN_FLIGHT = 8
PEERS_LEAD_S = 20.0  # that peers have to create the periodic entries


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "peers", type=_peers, nargs="?", metavar="PEERS",
        help=f"of {','.join(PEERS)}; all: every one (default: those of {','.join(USUAL_PEERS)} that are installed)",
    )  # fmt: skip
    parser.add_argument(
        "--parts", type=_parts, default=USUAL_PARTS, metavar="PARTS",
        help=f"of {','.join(PARTS)}; all: every one (default: {','.join(USUAL_PARTS)})",
    )  # fmt: skip
    parser.add_argument("--rounds", type=_rounds, default=5, help="how often each has its turn (5)")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each create measurement (5)")
    parser.add_argument("--count", type=int, default=10_000, help="jobs to run, and to run at one instant (10,000)")
    parser.add_argument("--lead", type=float, default=10.0, help="seconds from creating a burst to its instant (10)")
    parser.add_argument("--periodic-seconds", type=float, default=30.0, help="length of the periodic measurement (30)")
    parser.add_argument(
        "--peer-python", default=sys.executable, metavar="PATH",
        help="the Python that has the peers' packages (default: this one)",
    )  # fmt: skip
    parser.add_argument(
        "--peer-node-modules", type=Path, default=Path("node_modules"), metavar="DIR",
        help="where npm put the peers' packages (node_modules)",
    )  # fmt: skip


def bench_against(loop: Loop, given: argparse.Namespace) -> bool:
    """False when a peer that is installed failed, or not all of raftsched's runs that were due have begun.

    RuntimeError when peers were asked for by name and none of them is there.
    """
    before = signal.signal(signal.SIGTERM, _ended)
    rounds: list[list[Line]] = []
    try:
        with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as programs:
            places = Places(given.peer_python, given.peer_node_modules, Path(programs))
            peers = chosen(given.peers, places)
            held = True
            for number in range(given.rounds):
                note(f"round {number + 1} of {given.rounds}")
                rounds.append([])
                for turn in turns(given.parts, peers):
                    first = len(figures.lines())
                    try:
                        held = _measured(loop, turn, places, work_of(given)) and held
                    finally:
                        rounds[-1] += figures.lines()[first:]
    finally:
        signal.signal(signal.SIGTERM, before)
        for ratio in ratios(rounds):
            emit(BENCH, system=ratio.peer, **ratio.figures())
    return held


def work_of(given: argparse.Namespace) -> dict[str, Any]:
    """How much of everything each system has to do, as the load programs of the peers read it."""
    return {
        "seconds": given.seconds, "in_flight": create.IN_FLIGHT, "batch": create.BATCH,
        "batch_in_flight": BATCH_IN_FLIGHT, "warm": run.WARM, "count": given.count, "lead_s": given.lead,
        "every_s": periodic.PERIOD_MS / 1000, "periodic_s": given.periodic_seconds, "periodic_lead_s": PEERS_LEAD_S,
    }  # fmt: skip


def chosen(asked: Sequence[Peer] | None, places: Places) -> list[Peer]:
    """Those that are installed, of those asked for or else of the usual ones. The others are said to be skipped."""
    peers = [peer for peer in asked or map(PEERS.__getitem__, USUAL_PEERS) if _there(peer, places)]
    if asked and not peers:
        raise RuntimeError("none of these peers is installed")
    return peers


def turns(parts: Sequence[str], peers: Sequence[Peer]) -> Iterator[tuple[Peer | None, list[str]]]:
    """Those of a round: who (None: raftsched) does which parts. Parts that no peer can do are left out."""
    for group in GROUPS:
        wanted = [part for part in group if part in parts and (not peers or any(part in p.parts for p in peers))]
        if wanted:
            yield None, wanted
            for peer in peers:
                if same := [part for part in wanted if part in peer.parts]:
                    yield peer, same


def _there(peer: Peer, places: Places) -> bool:
    """Says in a line with which versions it runs, or why not."""
    missing = peer.missing(places)
    if missing:
        note(f"{peer.name} is skipped, not installed:" + "".join(f"\n  {what}" for what in missing))
        emit("peer", system=peer.name, skipped=missing)
        return False
    try:
        peer.build(places)
    except NotBuilt as error:
        note(f"{peer.name} is skipped, its load program is not built: {error}")
        emit("peer", system=peer.name, skipped=[str(error)])
        return False
    emit("peer", system=peer.name, versions=", ".join(peer.versions(places)))
    return True


def _measured(loop: Loop, turn: tuple[Peer | None, list[str]], places: Places, work: Mapping[str, Any]) -> bool:
    peer, parts = turn
    return _ours(loop, {**work, "parts": parts}) if peer is None else _theirs(peer, places, {**work, "parts": parts})


def _ours(loop: Loop, work: Mapping[str, Any]) -> bool:
    """Each part on nodes of its own; False: see bench_against."""
    parts, count = work["parts"], work["count"]
    held = True
    kinds = [*(("single", "sdk") if "create" in parts else ()), *(("batch",) if "bulk" in parts else ())]
    if kinds:
        with _cluster("creates") as cluster:
            loop(create.bench_create(cluster, kinds, ["leader"], work["seconds"], [BATCH_IN_FLIGHT]))
    if "run" in parts:
        with _cluster("runs") as cluster:
            loop(run.bench_runs(cluster, ["python"], count))
    if "burst" in parts:
        with _cluster("a burst") as cluster:
            held = loop(run.bench_burst(cluster, count, work["lead_s"])) and held
    if "periodic" in parts:
        with _cluster("periodic jobs") as cluster:
            held = loop(periodic.bench_periodic(cluster, "spread", count, work["periodic_s"])) and held
    return held


def _cluster(what: str) -> Cluster:
    note(f"raftsched: {what} ...")
    return Cluster(3, pythonpath=starts.JOBS)


def _theirs(peer: Peer, places: Places, work: Mapping[str, Any]) -> bool:
    note(f"{peer.name}: {', '.join(work['parts'])} ...")
    with tempfile.TemporaryDirectory(prefix="raftsched-bench-") as directory:
        Path(directory).chmod(0o711)  # PostgreSQL may run as another user
        try:
            load = Load()
            for line in peer.measure(places, work, Path(directory)):
                if line["bench"] != "begin":
                    shares = load.shares()
                    del shares["cpu_load"]  # it is not this process; the line may say
                    emit(line.pop("bench"), system=peer.name, **shares, **line)
                load = Load()
        except RuntimeError as error:
            note(f"{peer.name}: {error}")
            emit("peer", system=peer.name, failed=str(error))
            return False
    return True


def _peers(text: str) -> list[Peer]:
    names = list(PEERS) if text == "all" else text.split(",")
    if unknown := [name for name in names if name not in PEERS]:
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return [PEERS[name] for name in names]


def _parts(text: str) -> list[str]:
    parts = list(PARTS) if text == "all" else text.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return parts


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"not a number of rounds: {text}")
    return int(text)


def _ended(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM ends what was started, as Ctrl-C does."""
    raise KeyboardInterrupt
