"""An endurance trial: three real nodes, jobs that write when they live, and faults at random; then a verdict.

200 jobs (python, exec, shell, and stubborn ones that ignore TERM and leave for a session of their own; recurring, once,
queued, and when asked) write a start line, a beat every 50 ms and an end line with the boot time into a file of each.
Meanwhile nodes and their supervisors are killed with -9 and stopped, sometimes two at a time. Then all are made well,
and the checker holds what the jobs wrote against what was accepted and what the cluster says. Its table comes on
stdout, with one JSON line at the end; each violation and what is going on on stderr.

With --once ROUNDS it is another trial: one request is sent fifty times at once over all nodes while the leader is
killed (a job by an Idempotency-Key or by its name, a batch, a run, a skipped next time), ROUNDS times each; it has
to be done once.

Exit code 0: nothing was found. 1: a violation, or a trial that showed nothing (no fault, or no attempt lost).
"""

from __future__ import annotations

import argparse
import json
import random
import secrets
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.trials.checker import RULES, Verdict
from scripts.trials.endurance import JOBS, Trial, as_json, keep, run_trial
from scripts.trials.once import KINDS, Round, run_round
from tests.support.cluster import Cluster

SHOWN = 20  # violations of one rule that are written out


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def table(verdict: Verdict) -> str:
    width = max(map(len, RULES))
    rows = [f"{'rule':{width}}  {'checked':>8}  {'violations':>10}"]
    rows += [f"{rule:{width}}  {verdict.checked[rule]:8}  {len(verdict.violations[rule]):10}" for rule in RULES]
    return "\n".join(rows)


def show(trial: Trial, seed: int) -> None:
    for rule, found in trial.verdict.violations.items():
        for what in found[:SHOWN]:
            note(f"{rule}: VIOLATED\n    {what}")
        if len(found) > SHOWN:
            note(f"    and {len(found) - SHOWN} more")
    for why in trial.empty:
        note(f"the trial showed nothing: {why}")
    print(", ".join(f"{what}: {times}" for what, times in sorted(trial.faults.done.items())))
    print(", ".join(f"{what}: {number}" for what, number in sorted(trial.verdict.counts.items())))
    print(table(trial.verdict))
    print("HELD" if trial.held else "FAILED", f"(seed {seed})")
    print(as_json(trial, seed), flush=True)


def once(nodes: int, rounds: int, seed: int) -> int:
    rng = random.Random(seed)
    done: list[Round] = []
    with Cluster(nodes) as cluster:
        for _ in range(rounds):
            for kind in KINDS:
                done.append(run_round(cluster, rng, kind))
                note(str(done[-1]))
                for what in done[-1].wrong:
                    note(f"    VIOLATED: {what}")
    held = all(one.held for one in done) and any(one.met for one in done)
    violations, met = sum(len(one.wrong) for one in done), sum(one.met for one in done)
    print("HELD" if held else "FAILED", f"(seed {seed})")
    told = {"trial": "once", "seed": seed, "held": held, "rounds": len(done), "met": met, "violations": violations}
    print(json.dumps(told), flush=True)
    return 0 if held else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/endurance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=180.0, help="how long faults happen (180)")
    parser.add_argument("--jobs", type=int, default=200, help="how many jobs (200)")
    parser.add_argument("--nodes", type=int, default=3, help="how many nodes (3)")
    parser.add_argument("--slots", type=int, default=64, help="slots per node (64)")
    parser.add_argument("--seed", type=int, default=None, help="of the jobs and the faults (a new one each time)")
    parser.add_argument("--keep", type=Path, default=None, help="where to put lines and logs when it failed")
    parser.add_argument(
        "--once", type=int, default=0, metavar="ROUNDS", help="requests sent fifty times at once instead"
    )
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    note(f"seed {seed}; starting {given.nodes} nodes ...")
    if given.once:
        return once(given.nodes, given.once, seed)
    with tempfile.TemporaryDirectory(prefix="raftsched-endurance-") as temporary:
        directory = Path(temporary)
        flags = ["--slots", str(given.slots)]
        try:
            with Cluster(given.nodes, flags=flags, directory=directory, pythonpath=JOBS) as cluster:
                trial = run_trial(cluster, directory, seed, given.jobs, given.seconds, note)
        except (RuntimeError, AssertionError, OSError) as error:
            note(f"scripts/endurance: {error} (seed {seed})")
            if given.keep is not None:
                keep(directory, given.keep)
            return 1
        if given.keep is not None and not trial.held:
            keep(directory, given.keep)
    show(trial, seed)
    return 0 if trial.held else 1


if __name__ == "__main__":
    sys.exit(main())
