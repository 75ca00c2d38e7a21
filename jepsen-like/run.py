#!/usr/bin/env python3
"""Hurts a cluster of real processes for a while, and judges what came of it.

It starts three or five nodes, uses them as clients do, kills, stops, cuts and damages them by a seed, and makes
everything well again. Then it holds what was promised against the history of all calls and what the jobs wrote.
The last line is the verdict; the exit code is 1 when anything failed, and 2 when there is none."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness import beats, history, machine, nemesis, report, space, workloads
from harness.checkers import Evidence, Finding, judge
from harness.clock import SECOND, boot_ns
from harness.cluster import BROKEN, Cluster, Node
from harness.conductor import Conductor
from harness.history import History
from harness.nemesis.workers import OnWorkers
from harness.network import Loopback, Namespaces, Network
from harness.world import Helpless, World

WELL_S = 90.0  # for the cluster, after the last fault
QUIET_S = 180.0  # for all that is due to have run after that
LINGER_S = 2.0  # a process that nobody knows of any more would write a beat meanwhile
PAGE = 1_000
TIME_MAX_S = 7 * 24 * 3600
WORKERS_MAX = 100
Outcome = tuple[list[Finding], Evidence, dict[str, str]]
TOLD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BUSY = "WAITING,LAUNCHED,RUNNING,RETRYING"


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="jepsen-like/run.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples:\n"
        "  jepsen-like/run.py --nodes 3 --time 60\n"
        "  sudo jepsen-like/run.py --nodes 5 --time 600 --nemesis all --seed 7\n"
        "  jepsen-like/run.py --nemesis kill-leader,partition-one-way --workload once,periodic\n"
        "  sudo jepsen-like/run.py --workers 20 --run-on workers --time 600\n"
        "  jepsen-like/run.py --list",
    )
    parser.add_argument("--nodes", type=int, default=3, choices=(3, 5), help="how many (default: 3)")
    parser.add_argument("--time", type=float, default=60.0, metavar="S", help="seconds with faults (default: 60)")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="remote workers beside them (default: 0)")
    parser.add_argument(
        "--run-on",
        choices=("all", "some", "workers"),
        default="all",
        help="who runs jobs beside remote workers: all nodes, one of them, or none (default: all)",
    )
    parser.add_argument("--nemesis", default="all", metavar="A,B", help="which faults; 'all', or 'none' (default: all)")
    parser.add_argument("--workload", default="all", metavar="A,B", help="what clients do (default: all)")
    parser.add_argument("--seed", type=int, help="chooses faults and jobs; printed (default: a fresh one)")
    parser.add_argument(
        "--network",
        choices=("auto", "namespaces", "loopback"),
        default="auto",
        help="a network namespace for each node, as root, or all on loopback (default: what can be had)",
    )
    parser.add_argument("--dir", metavar="DIR", help="keeps everything there (default: a temporary place)")
    parser.add_argument("--report", metavar="FILE", help="where the HTML report goes (default: in the kept directory)")
    parser.add_argument("--json", metavar="FILE", help="the verdict for programs")
    broken = sorted(file.stem for file in BROKEN.glob("*.py"))
    parser.add_argument("--broken", choices=broken, help="a build with one rule taken out; it must be caught")
    parser.add_argument("--list", action="store_true", help="shows faults and workloads, and what cannot be done here")
    args = parser.parse_args(argv)
    if not 0 < args.time <= TIME_MAX_S:
        parser.error(f"--time must be above 0, and {TIME_MAX_S} at most")
    for flag, file in (("--report", args.report), ("--json", args.json)):
        if file is not None and not Path(file).resolve().parent.is_dir():
            parser.error(f"{flag}: there is no directory {Path(file).resolve().parent}")
    if not 0 <= args.workers <= WORKERS_MAX:
        parser.error(f"--workers must be between 0 and {WORKERS_MAX}")
    if args.run_on != "all" and not args.workers:
        parser.error(f"--run-on {args.run_on} needs --workers: nobody else would run anything")
    if args.dir is not None and Path(args.dir).exists() and not Path(args.dir).is_dir():
        parser.error(f"--dir: {args.dir} is no directory")
    args.faults = chosen(parser, "--nemesis", args.nemesis, nemesis.named())
    args.workloads = chosen(parser, "--workload", args.workload, workloads.named())
    return args


def chosen(parser: argparse.ArgumentParser, flag: str, text: str, known: dict[str, Any]) -> list[Any]:
    if text == "none":
        return []
    names = list(known) if text == "all" else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            parser.error(f"{flag}: there is no {name!r}; there are {', '.join(known)}")
    return [known[name] for name in names]


def main() -> int:
    args = arguments(sys.argv[1:])
    if os.environ.get(machine.INSIDE) != "1" and args.network != "loopback":
        why = machine.can_have_namespaces()
        if why is None:
            machine.enter([str(Path(__file__).resolve()), *sys.argv[1:]])
        if args.network == "namespaces":
            print(f"no namespaces: {why}", file=sys.stderr)
            return 2
    if args.network == "loopback":
        os.environ.pop(machine.INSIDE, None)
    elif os.environ.get(machine.INSIDE) == "1":
        machine.settle()
    try:
        directory = Path(args.dir).resolve() if args.dir else machine.scratch(None)
        directory.mkdir(parents=True, exist_ok=True)
        full = any(directory.iterdir())
    except OSError as error:
        print(f"{error.filename or args.dir} cannot be used: {error.strerror}", file=sys.stderr)
        return 2
    if full:
        print(f"{directory} is not empty; name an empty or a new directory with --dir", file=sys.stderr)
        return 2
    try:
        return in_directory(args, directory)
    except (OSError, ExceptionGroup) as error:
        wrong = space.why(error)
        if wrong is None:
            raise
    except Helpless as error:
        wrong = str(error)
    print(f"\nverdict: none, it could not go on: {wrong}; what there is: {directory}", file=sys.stderr)
    return 2


def in_directory(args: argparse.Namespace, directory: Path) -> int:
    """The exit code. Raises Helpless, and OSError, alone or in a group."""
    here = machine.look(directory)
    if args.list:
        show(args, here)
        if not args.dir:
            shutil.rmtree(directory, ignore_errors=True)
        return 0
    seed = random.SystemRandom().randrange(2**32) if args.seed is None else args.seed
    try:
        findings, evidence, facts = asyncio.run(until_told(trial(args, here, directory, seed)))
    except asyncio.CancelledError:
        print(f"\nverdict: none, it was interrupted; what there is: {directory}")
        return 130
    held = all(finding.held for finding in findings)
    tell(findings)
    file = Path(args.report) if args.report else directory / "report.html"
    report.write(file, "raftsched under faults", facts, findings, evidence)
    if args.json:
        Path(args.json).write_text(json.dumps({"held": held, "facts": facts, "rules": report.rows(findings)}, indent=1))
    if held and not args.dir and not args.report:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        print(f"\nhistory, logs and report: {directory}" + (f", {file}" if args.report else ""))
    broken = [finding.rule for finding in findings if not finding.held]
    print("verdict: everything held" if held else f"verdict: BROKEN: {'; '.join(broken)}")
    return 0 if held else 1


def show(args: argparse.Namespace, here: machine.Machine) -> None:
    print("faults:")
    for fault in nemesis.named().values():
        why = fault.impossible(here, args.nodes)
        print(f"  {fault.name:<30}{'' if why is None else f'skipped: {why}'}")
    print("workloads:")
    for name, kind in workloads.named().items():
        print(f"  {name:<30}{(sys.modules[kind.__module__].__doc__ or '').strip().splitlines()[0]}")


async def until_told(work: Coroutine[Any, Any, Outcome]) -> Outcome:
    """Ctrl-C and SIGTERM end it as its time does: faults are healed and nodes stopped. Told again, it goes on with
    that."""
    task = asyncio.create_task(work)
    for number in TOLD:
        asyncio.get_running_loop().add_signal_handler(number, told, task)
    return await task


def told(task: asyncio.Task[Any]) -> None:
    if not task.cancelling():
        task.cancel()


async def trial(args: argparse.Namespace, here: machine.Machine, directory: Path, seed: int) -> Outcome:
    names = [f"n{number}" for number in range(1, args.nodes + 1)]
    workers = [f"w{number}" for number in range(1, args.workers + 1)]
    voters = {"all": [], "some": names[1:], "workers": names}[args.run_on]
    if not workers:
        args.faults = [fault for fault in args.faults if not isinstance(fault, OnWorkers)]
    skipped = {f.name: why for f in args.faults if (why := f.impossible(here, args.nodes)) is not None}
    faults = [fault for fault in args.faults if fault.name not in skipped]
    room = space.FREE_MIN if here.namespaces else space.FREE_MIN_WITH_NODES
    space.check(directory, room)
    network: Network = await (Namespaces if here.namespaces else Loopback).create(names, workers)
    beside = f" and {args.workers} remote workers (jobs run on {args.run_on})" if workers else ""
    print(f"{args.nodes} nodes{beside}, {network.name}, {args.time:g} s, seed {seed}")
    for name, why in skipped.items():
        print(f"skipped: {name} ({why})")
    lives = directory / "lives"
    lives.mkdir()
    log = History(directory / "history.jsonl")
    cluster = Cluster(names, network, here, directory, log, args.broken, workers, voters)
    final: dict[str, Any] = {}
    conductor: Conductor | None = None
    try:
        amiss = await cluster.start()
        if amiss is not None:
            raise Helpless(f"the cluster did not start: {amiss}")
        world = World(cluster, log, random.Random(seed), lives, args.time)
        conductor = Conductor(world, faults)
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(space.watch(directory, room))
                final = await live(world, conductor, [kind() for kind in args.workloads])
                watching.cancel()
        except* Helpless as errors:
            print(f"{(boot_ns() - world.began_ns) / SECOND:6.1f} s  given up: {first(errors)}", flush=True)
            log.note("not-over", amiss=first(errors))
        (directory / "final.json").write_text(json.dumps(final))
    finally:
        await cluster.stop()
        log.close()
    evidence = Evidence(history.read(directory / "history.jsonl"), beats.read(lives), final)
    assert conductor is not None
    facts = {
        "nodes": f"{args.nodes}{beside}, {network.name}",
        "seconds with faults": f"{args.time:g}",
        "seed": str(seed),
        "build": args.broken or "as it is",
        "faults": f"{conductor.done.total()} ({', '.join(f'{k} {n}' for k, n in sorted(conductor.done.items()))})",
        "leaders": str(len({n["at"] for n in evidence.record.noted("leader") if n["node"]})),
        "calls": f"{len(evidence.record.ops):,}",
        "runs": f"{len(evidence.lives.runs):,}",
        "did not come": ", ".join(sorted({f.name for f in faults} - conductor.done.keys())) or "all came",
        "skipped": "; ".join(f"{name} ({why})" for name, why in skipped.items()) or "nothing",
    }
    print()
    for name, value in facts.items():
        print(f"{name:<22}{value}")
    return judge(evidence), evidence, facts


def first(group: BaseExceptionGroup[Any]) -> str:
    found = group.exceptions[0]
    return first(found) if isinstance(found, BaseExceptionGroup) else str(found)


async def live(world: World, conductor: Conductor, used: list[Any]) -> dict[str, Any]:
    """The trial itself. What each node says at its end. Raises Helpless."""
    for workload in used:
        await workload.prepare(world)
    async with asyncio.TaskGroup() as group:
        group.create_task(conductor.run())
        for workload in used:
            group.create_task(workload.run(world))
    print(f"{(boot_ns() - world.began_ns) / SECOND:6.1f} s  everything is made well", flush=True)
    await settle(world, used)
    return {node.name: await read_all(node) for node in world.cluster.nodes}


async def settle(world: World, used: list[Any]) -> None:
    """Until the cluster is well, everything that was due has run, and what the workloads have left to do is done."""
    cluster = world.cluster
    await cluster.restart_dead()  # of which nobody has taken notice yet
    for node in cluster.nodes:
        if not node.alive:
            await node.start()
    for worker in cluster.workers:
        if not worker.alive:
            await worker.start()
    amiss = await cluster.wait_well(WELL_S)
    if amiss is not None:
        world.history.note("not-over", amiss=amiss)
    await quiet(world)
    for workload in used:
        await workload.settle(world)
    await quiet(world)
    await asyncio.sleep(LINGER_S)
    world.history.note("quiet")
    await asyncio.sleep(LINGER_S)


async def quiet(world: World) -> None:
    """Nothing is due soon, and nothing runs."""
    end = boot_ns() + int(QUIET_S * SECOND)
    soon = "next_to=2100-01-01T00:00:00Z&limit=1000"
    while True:
        busy = (await world.insist("GET", f"/v1/instances?state={BUSY}&limit=1&consistency=leader")).json["items"]
        due = (await world.insist("GET", f"/v1/jobs?{soon}&consistency=leader")).json["items"]
        due = [job for job in due if job["namespace"] != "bulk"]
        if not busy and not due:
            return
        if boot_ns() > end:
            left = [row["id"] for row in busy] + [job["id"] for job in due]
            world.history.note("not-over", amiss=f"still to run after {QUIET_S:g} s: {', '.join(left[:10])}")
            return
        await asyncio.sleep(0.5)


async def read_all(node: Node) -> dict[str, list[dict[str, Any]]]:
    """All that a node says, from its own tables."""
    return {
        "jobs": await pages(node, "/v1/jobs"),
        "instances": await pages(node, "/v1/instances"),
        "dead": await pages(node, "/v1/dead-letters"),
    }


async def pages(node: Node, path: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = await node.get(f"{path}?limit={PAGE}{cursor}", 30.0)
        if page is None:
            raise Helpless(f"{node.name} does not answer {path} although all is well")
        rows += page["items"]
        if page["next"] is None:
            return rows
        cursor = f"&cursor={page['next']}"


def tell(findings: list[Finding]) -> None:
    print(f"\n{'rule':<72}{'looked at':>10}{'violations':>12}")
    for finding in findings:
        print(f"{finding.rule:<72}{finding.looked_at:>10,}{len(finding.wrong):>12,}")
        for what in finding.wrong[:5]:
            print(f"    {what[:300]}")
        if len(finding.wrong) > 5:
            print(f"    ... and {len(finding.wrong) - 5:,} more")
        if finding.counts:
            print("    " + ", ".join(f"{name}: {number:,}" for name, number in sorted(finding.counts.items())))


if __name__ == "__main__":
    sys.exit(main())
