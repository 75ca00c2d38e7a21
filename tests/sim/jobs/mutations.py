"""Which run shows what each rule is good for: scripts/simulate --jobs --mutations [RULE ...].

With a rule out the simulator must find a broken promise within SEEDS seeds, and for the right reason; with all rules in
the same profile must find nothing. A rule of the product is taken out by a patch, one of what is simulated by a switch.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from tests.sim.jobs import broken, broken_worker, dues, truth
from tests.sim.jobs.calm import NEVER_ENDS, NOT_CARRIED_OUT, RUN_AGAIN
from tests.sim.jobs.ledger import (
    AT_MOST_ONCE,
    DONE_TWICE,
    KILLED_BEFORE,
    KNOWN_AND_LOST,
    LOST_TOO_OFTEN,
    OVER_LIMITS,
    RETRIED_TOO_OFTEN,
    WHILE_DRAINED,
    WHILE_PAUSED,
    WRONG_OUTCOME,
)
from tests.sim.jobs.order import LESS_URGENT
from tests.sim.jobs.switches import ALL, Switches
from tests.sim.jobs.world import simulate_jobs
from tests.sim.world import Outcome

SEEDS = 100

APART = (truth.ENDED_ALIVE, truth.STARTED_OVER, truth.TWO_OF_AN_INSTANCE, truth.FORBIDDEN_OVERLAP)
LOST = (NEVER_ENDS, dues.MISSED)
LEADS_TOO_LONG = (*APART, "still leads term")  # the same age makes a leader resign, and most runs end there


@dataclass(frozen=True)
class Mutation:
    """`shows`: a violation counts when it says one of these."""

    shows: tuple[str, ...]
    profile: str
    patch: Callable[[], AbstractContextManager[object]] = nullcontext
    switches: Switches = ALL
    nodes: int = 3
    seconds: float = 60.0


def _both(
    rule: str,
    shows: tuple[str, ...],
    own: str,
    remote: str,
    patch: Callable[[], AbstractContextManager[object]] = nullcontext,
    switches: Switches = ALL,
    nodes: int = 3,
) -> dict[str, Mutation]:
    """The rule in the profile `own`, in which nodes run all, and in `remote`, in which remote workers do."""
    profiles = {rule: own, f"worker_{rule}": remote}
    return {name: Mutation(shows, profile, patch, switches, nodes) for name, profile in profiles.items()}


MUTATIONS: dict[str, Mutation] = {
    # leases
    "quorum_age_from_sending": Mutation(LEADS_TOO_LONG, "growing-delay", broken.quorum_age_from_receipt, nodes=5),
    **_both("grants_shrink_with_quorum_age", APART, "islands", "worker-islands", broken.whole_grants, nodes=5),
    **_both("new_leader_waits", APART, "elections", "worker-elections", broken.new_leader_in_a_hurry),
    **_both("held_lease_is_moved_on", APART, "elections", "worker-elections", broken.leases_not_moved_on),
    **_both("margin", APART, "slewed", "worker-slewed", broken.no_margin),
    **_both("lease_from_sending", APART, "late-grants", "worker-late-grants", broken_worker.lease_from_receipt),
    **_both("self_kill", APART, "stops", "worker-stops", switches=Switches(self_kill=False)),
    **_both("kill_before_end", APART, "slewed", "worker-slewed", switches=Switches(kill_before_end=False)),
    # sessions
    **_both("fence", APART, "stops", "worker-stops", switches=Switches(fence=False)),
    **_both("earlier_run_is_over", APART, "restarts", "worker-restarts", switches=Switches(lock=False)),
    **_both("lapses_with_its_runs", LOST, "slewed", "worker-leases", broken_worker.lost_goes_on),
    **_both("lapses_with_its_supervisor", LOST, "restarts", "worker-restarts", broken_worker.dead_supervisor_unnoticed),
    **_both(
        "ends_before_openings", (KNOWN_AND_LOST,), "restarts", "worker-restarts", broken_worker.earlier_ends_untold
    ),
    **_both("ends_outlive_processes", (KNOWN_AND_LOST,), "restarts", "worker-restarts", broken_worker.kept_ends_untold),
    **_both("handed_back_when_over", APART, "restarts", "worker-restarts", broken_worker.handed_back_alive),
    "end_of_newest_leadership": Mutation(APART, "old-ends", broken.ends_of_old_leaders),
    "assign_to_open_session": Mutation(LOST, "handed-back", broken.assign_to_closed_sessions),
    "session_of_this_process": Mutation((*APART, truth.STARTED_TWICE), "restarts", broken_worker.any_session_adopted),
    "openings_in_order": Mutation(APART, "worker-openings", broken_worker.any_opening_replaces),
    "openings_of_one_process": Mutation(APART, "worker-openings", broken_worker.any_process_replaces),
    # attempts
    **_both("token_of_report", (*APART, WRONG_OUTCOME), "stops", "worker-repeats", broken.reports_of_old_tokens),
    **_both("lost_is_not_reported", (WRONG_OUTCOME,), "stops", "worker-stops", broken_worker.lost_is_reported),
    **_both("kill_only_asks", APART, "elections", "worker-elections", broken.kill_ends),
    **_both("killed_stays_killed", (KILLED_BEFORE,), "stops", "worker-stops", broken.kill_forgotten),
    **_both("taken_once", (truth.STARTED_TWICE,), "snapshots", "worker-elections", broken_worker.taken_forgotten),
    "what_is_given_is_looked_up": Mutation(LOST, "snapshots", broken_worker.only_notifications),
    # policies
    "retry_levels": Mutation((RETRIED_TOO_OFTEN,), "elections", broken.retries_without_end),
    "max_lost": Mutation((LOST_TOO_OFTEN,), "restarts", broken.lost_without_end),
    "at_most_once": Mutation((AT_MOST_ONCE,), "restarts", broken.at_most_once_forgotten),
    "overlap": Mutation((truth.FORBIDDEN_OVERLAP,), "elections", broken.always_room),
    "max_of_a_key": Mutation((truth.TOO_MANY_OF_A_KEY,), "elections", broken.permits_without_end),
    "lines_are_let_go": Mutation(LOST, "elections", broken.lines_for_ever),
    "missed_ones_follow_one_another": Mutation((dues.LEFT_OUT,), "elections", broken.nothing_owed),
    "release_of_held": Mutation(LOST, "elections", broken.held_for_ever),
    "more_urgent_first": Mutation((LESS_URGENT,), "narrow", broken.less_urgent_first),
    "limits_of_queues": Mutation((OVER_LIMITS,), "elections", broken.queues_without_limits),
    # what operators say
    "pause_outlives_its_leader": Mutation((WHILE_PAUSED,), "elections", broken.next_leader_knows_of_no_pause),
    "pause_stops_schedules": Mutation(
        ("is fired while the cluster is paused",), "elections", broken.next_leader_fires_in_a_pause
    ),
    "drained_nodes_rest": Mutation((WHILE_DRAINED,), "elections", broken.nothing_is_drained),
    "operations_outlive_their_leader": Mutation((NOT_CARRIED_OUT,), "bulk", broken.operations_end_with_their_leader),
    "steps_are_done_once": Mutation(
        (RUN_AGAIN, "the tables do not fit: operation"), "bulk", broken.second_step_repeated
    ),
    # keys
    "keys_are_remembered": Mutation((DONE_TWICE,), "elections", broken.keys_forgotten),
    # firing
    "far_times_come_near": Mutation(LOST, "elections", broken.far_for_ever),
    "fire_compares_nominal": Mutation((dues.FIRED_TWICE,), "elections", broken.fires_anything),
    "past_times_are_loaded": Mutation(LOST, "elections", broken.only_future_loaded),
    "gaps_are_recorded": Mutation((dues.MISSED,), "elections", broken.no_gaps),
    "calendars_exclude": Mutation((dues.EXCLUDED,), "calendars", broken.nothing_is_excluded),
    "calendar_counts_from_acceptance": Mutation((dues.MISSED,), "elections", broken.calendar_from_now),
}


@dataclass(frozen=True)
class Found:
    """The result of one hunt."""

    rule: str
    tried: int = 0
    seed: int | None = None  # of the run that shows it
    violation: str = ""
    others: tuple[str, ...] = ()  # violations that show something else
    seconds: float = 0.0  # that the hunt took

    def line(self) -> str:
        if self.seed is None:
            other = f"; found instead: {self.others[0]}" if self.others else ""
            return f"{self.rule}: NOT CAUGHT by {self.tried} seeds{other} ({self.seconds:.0f} s)"
        seeds = "1 seed" if self.tried == 1 else f"{self.tried} seeds"
        mutation = MUTATIONS[self.rule]
        return (
            f"{self.rule}: caught at seed {self.seed} after {seeds}, {self.seconds:.0f} s: {self.violation[:300]}\n"
            f"  python -m tests.sim --jobs --seed {self.seed} --seconds {mutation.seconds:g} --nodes {mutation.nodes} "
            f"--profile {mutation.profile} --without {self.rule} -v"
        )


def play(
    seed: int, nodes: int, seconds: float, profile: str, rule: str | None = None, verbose: bool = False
) -> Outcome:
    """One run, with a rule out."""
    if rule is None:
        return simulate_jobs(seed, nodes, seconds, profile, verbose=verbose)
    mutation = MUTATIONS[rule]
    with mutation.patch():
        return simulate_jobs(seed, nodes, seconds, profile, mutation.switches, verbose)


def hunt(rule: str, first: int, seeds: int = SEEDS) -> Found:
    """Runs seeds from `first` on until one shows the harm."""
    mutation = MUTATIONS[rule]
    others: list[str] = []
    began = time.monotonic()
    for number in range(seeds):
        violation = play(first + number, mutation.nodes, mutation.seconds, mutation.profile, rule).violation
        if violation is None:
            continue
        if "TypeError" in violation or "AttributeError" in violation:
            raise TypeError(f"what stands in for {rule} is not called as it is: {violation}")
        if any(part in violation for part in mutation.shows):
            return Found(rule, number + 1, first + number, violation, tuple(others), time.monotonic() - began)
        others.append(violation)
    return Found(rule, seeds, others=tuple(others), seconds=time.monotonic() - began)


def intact(rule: str, first: int, seeds: int) -> list[str]:
    """The same runs with all rules in: the violations, of which there must be none."""
    mutation, failed = MUTATIONS[rule], []
    for seed in range(first, first + seeds):
        violation = simulate_jobs(seed, mutation.nodes, mutation.seconds, mutation.profile).violation
        if violation is not None:
            failed.append(f"seed {seed}, profile {mutation.profile}: {violation}")
    return failed


def _hunt(job: tuple[str, int, int]) -> Found:
    return hunt(*job)


def hunt_all(rules: list[str], first: int, seeds: int = SEEDS, processes: int = 0) -> Iterator[Found]:
    """As they end, one rule per process."""
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count() or 1) as pool:
        yield from pool.imap_unordered(_hunt, [(rule, first, seeds) for rule in rules])


def main(rules: list[str], first: int | None, seeds: int, processes: int) -> int:
    """All rules when none is named. 1 when any is not caught."""
    unknown = sorted(set(rules) - set(MUTATIONS))
    if unknown:
        raise SystemExit(f"no such rule: {', '.join(unknown)}; see tests/sim/jobs/mutations.py")
    rules = rules or list(MUTATIONS)
    first = random.SystemRandom().getrandbits(32) if first is None else first
    print(f"first seed {first}", flush=True)
    started = time.monotonic()
    caught = tried = 0
    for found in hunt_all(rules, first, seeds, processes):
        caught += found.seed is not None
        tried += found.tried
        print(found.line(), flush=True)
    took = time.monotonic() - started
    print(f"{caught} of {len(rules)} rules missed when out; {tried} seeds from {first}, {took:.0f} s")
    return 0 if caught == len(rules) else 1
