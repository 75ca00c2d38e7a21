"""raftsched against installed peers, in one run on this machine: the same work, one system at a time, in turns.

Peers are bullmq and celery on Redis, apscheduler and pgboss on PostgreSQL, and etcd, which only stores. All write to
the disk before they acknowledge; what else each runs with is in scripts/benches/peers/README.md. A peer that is not
installed is skipped, with the command that would install it. The ratios are raftsched's figure divided by the peer's.

Parts: create (one a request, 1, 32 and 256 in flight; for raftsched also through its client), bulk (batches of 200),
run (no-op jobs, from the first create to the last end), burst (that many due at one instant: the last start), periodic
(that many entries, each every 10 s, spread: how late).
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from scripts.benches import create, figures, periodic, run, starts
from scripts.benches.figures import emit, note
from scripts.benches.machine import Load
from scripts.benches.peers.installed import CREATES, PEERS, NotBuilt, Peer, Places
from scripts.benches.peers.ratios import markdown, ratios
from tests.support.cluster import Cluster

PARTS = (*CREATES, "run", "burst", "periodic")
BATCH_IN_FLIGHT = 8
PEERS_LEAD_S = 20.0  # that peers have to create the periodic entries

Loop = Callable[[Coroutine[Any, Any, Any]], Any]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("peers", type=_peers, metavar="PEERS", help=f"of {','.join(PEERS)}; all: every one")
    parser.add_argument(
        "--parts", type=_parts, default=PARTS, metavar="PARTS", help=f"of {','.join(PARTS)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=1, help="how often each has its turn (1)")
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
    """False when a peer that is installed failed, or not all of raftsched's runs that were due have begun."""
    places = Places(given.peer_python, given.peer_node_modules)
    peers = [peer for peer in given.peers if _there(peer, places)]
    if not peers:
        raise RuntimeError("none of these peers is installed")
    work = {
        "seconds": given.seconds, "in_flight": create.IN_FLIGHT, "batch": create.BATCH,
        "batch_in_flight": BATCH_IN_FLIGHT, "warm": run.WARM, "count": given.count, "lead_s": given.lead,
        "every_s": periodic.PERIOD_MS / 1000, "periodic_s": given.periodic_seconds, "periodic_lead_s": PEERS_LEAD_S,
    }  # fmt: skip
    asked = [part for part in given.parts if any(part in peer.parts for peer in peers)]
    before = signal.signal(signal.SIGTERM, _ended)
    held = True
    try:
        for _ in range(given.rounds):
            held = _ours(loop, {**work, "parts": asked}) and held
            for peer in peers:
                held = _theirs(peer, places, {**work, "parts": [p for p in asked if p in peer.parts]}) and held
    finally:
        signal.signal(signal.SIGTERM, before)
        found = ratios(figures.lines())
        for ratio in found:
            of = f"{ratio.of}, processor time" if ratio.field == "cpu_us" else ratio.of
            emit("against", system=ratio.peer, of=of, field=ratio.field, ratio=ratio.value)
        print(markdown(found), end="\n\n", file=sys.stdout if given.markdown else sys.stderr, flush=True)
    return held


def _there(peer: Peer, places: Places) -> bool:
    """Says in a line with which versions it runs, or why not."""
    missing = peer.missing(places)
    if missing:
        note(f"{peer.name} is skipped, not installed:" + "".join(f"\n  {what}" for what in missing))
        emit("peer", system=peer.name, skipped=missing)
    else:
        emit("peer", system=peer.name, versions=", ".join(peer.versions(places)))
    return not missing


def _ours(loop: Loop, work: Mapping[str, Any]) -> bool:
    """Each part on nodes of its own; False: see bench_against."""
    parts, count = work["parts"], work["count"]
    held = True
    kinds = [*(("single", "sdk") if "create" in parts else ()), *(("batch",) if "bulk" in parts else ())]
    if kinds:
        with _cluster("creates") as cluster:
            loop(create.bench_create(cluster, kinds, ["leader"], work["seconds"]))
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
    if not work["parts"]:
        return True
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
        except NotBuilt as error:
            note(f"{peer.name} is skipped, its load program is not built: {error}")
            emit("peer", system=peer.name, skipped=[str(error)])
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
    parts = text.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return parts


def _ended(_signal: int, _frame: FrameType | None) -> None:
    """SIGTERM ends what was started, as Ctrl-C does."""
    raise KeyboardInterrupt
