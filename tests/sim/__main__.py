"""python -m tests.sim [--jobs] --seed N [--seconds S] [--nodes N] [--profile P] [--without GUARD] [-v]: one run."""

from __future__ import annotations

import argparse
import logging
import random
import sys
from dataclasses import fields

from raftsched.raft.guards import ALL, Guards
from tests.sim.broken import PATCHES, without_rules
from tests.sim.jobs.mutations import MUTATIONS as JOBS_MUTATIONS
from tests.sim.jobs.mutations import play
from tests.sim.jobs.profiles import PROFILES as JOBS_PROFILES
from tests.sim.profiles import PROFILES
from tests.sim.world import simulate

JOBS_SECONDS = 120.0


def without(names: str | None) -> Guards:
    """All guards but one, or but some: "one,other". Rules that are patches have no guard."""
    guards = [] if names is None else [name for name in names.split(",") if name not in PATCHES]
    return Guards(**dict.fromkeys(guards, False)) if guards else ALL


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that this and scripts/simulate have in common."""
    parser.add_argument("--jobs", action="store_true", help="with leader, workers and what they run")
    parser.add_argument("--seconds", type=float, help="virtual seconds of faults (60; with --jobs 120)")
    parser.add_argument("--profile", default="mixed", help="see profiles.py, with --jobs jobs/profiles.py")
    parser.add_argument("--without", metavar="GUARD", help="with this guard out, or with these: A,B; --jobs: a rule")


def finished(parser: argparse.ArgumentParser, asked: argparse.Namespace) -> argparse.Namespace:
    """Fills in arguments that depend on others. Ends the process when they do not fit."""
    profiles = JOBS_PROFILES if asked.jobs else PROFILES
    if asked.profile not in profiles:
        parser.error(f"no such profile: {asked.profile}; use one of {', '.join(sorted(profiles))}")
    known = set(JOBS_MUTATIONS) if asked.jobs else {field.name for field in fields(Guards)} | set(PATCHES)
    unknown = sorted(set((asked.without or "").split(",")) - known - {""})
    if unknown:
        where = "tests/sim/jobs/mutations.py" if asked.jobs else "tests/sim/mutations.py"
        parser.error(f"no such rule: {', '.join(unknown)}; see {where}")
    if asked.seconds is None:
        asked.seconds = JOBS_SECONDS if asked.jobs else 60.0
    return asked


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Replays one run of the simulator.")
    parser.add_argument("--seed", type=int, help="default: a fresh one")
    parser.add_argument("--nodes", type=int, choices=range(3, 8), default=3)
    arguments(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="print what happens")
    asked = finished(parser, parser.parse_args())
    logging.getLogger("raftsched").setLevel(logging.CRITICAL + 1)
    seed = random.SystemRandom().getrandbits(32) if asked.seed is None else asked.seed
    if asked.jobs:
        outcome = play(seed, asked.nodes, asked.seconds, asked.profile, asked.without, asked.verbose)
    else:
        with without_rules(asked.without):
            outcome = simulate(seed, asked.nodes, asked.seconds, asked.profile, without(asked.without), asked.verbose)
    faults = ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items()))
    print(f"seed {seed}, {outcome.nodes} nodes, profile {outcome.profile}: {outcome.seconds:.1f} virtual seconds")
    print(f"faults: {sum(outcome.faults.values())} ({faults})")
    print(
        f"{outcome.entries} entries, {outcome.acknowledged} of {outcome.asked} calls acknowledged ({outcome.writes} "
        f"writes), {outcome.elections} elections, {outcome.installs} snapshots installed, "
        f"{outcome.states_compared} states compared, {outcome.steps} steps"
    )
    if asked.jobs:
        print(f"{outcome.runs} runs started: {', '.join(f'{k} {v}' for k, v in sorted(outcome.commands.items()))}")
    print(f"digest {outcome.digest} of {outcome.events} events")
    print(f"VIOLATION: {outcome.violation}" if outcome.violation else "no violation; converged")
    return 1 if outcome.violation else 0


if __name__ == "__main__":
    sys.exit(main())
