"""Which run shows what each guard is good for: scripts/simulate --mutations [GUARD ...].

With a guard out the simulator must find a broken promise within SEEDS seeds, and for the right reason; with all guards
in the same profile must find nothing. Where two guards prevent the same harm, both are taken out.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tests.sim.many import Task, begin, run
from tests.sim.versions import GOES_ON, RAISED_HELD, RAISED_UNKNOWN, REFUSED, STOPS, TAKEN

SEEDS = 200

# what a violation says
TWO_LEADERS = "has two leaders"
VOTES_TWICE = "votes in term"
INCOMPLETE_LEADER = "without the committed entry"
OTHER_COMMITTED = "for committed; it was"
NO_MAJORITY = "it is durable on"
OTHER_ENTRY = "has another entry"
COMMITTED_DELETED = "deletes the committed entry"
NOT_ON_DISK = "its disk has them up to"
NO_LEADER = "no leader"
NOT_CAUGHT_UP = "not caught up"
FEW_VOTES = "by the votes of"
FORGOTTEN = "; on its disk was"
OTHER_STATE = "have different states"
OTHER_OUTCOME = "with another outcome"

POWER = "tests/unit/store/test_checkpoint_power_loss.py::test_without_the_rule_it_is_not"


@dataclass(frozen=True)
class Mutation:
    """`shows`: a violation counts when it says one of these. `masked_by`: a guard that prevents the same harm and is
    taken out, too. `test`: the plain test that shows it where the simulator has no such fault."""

    shows: tuple[str, ...] = ()
    profile: str = "mixed"
    nodes: int = 3
    seconds: float = 20.0
    masked_by: str | None = None
    test: str | None = None


MUTATIONS: dict[str, Mutation] = {
    # the rules of Raft itself
    "one_vote_per_term": Mutation((VOTES_TWICE, TWO_LEADERS), "votes"),
    "vote_remembered": Mutation((VOTES_TWICE, TWO_LEADERS), "votes"),
    "votes_carry_term": Mutation((FEW_VOTES, TWO_LEADERS, INCOMPLETE_LEADER), "late-votes", nodes=5),
    "candidate_log_compared": Mutation((INCOMPLETE_LEADER, OTHER_COMMITTED, COMMITTED_DELETED), "network"),
    "older_terms_refused": Mutation(("two leaders in term", OTHER_ENTRY, OTHER_COMMITTED, NO_MAJORITY), "network"),
    "newer_term_adopted": Mutation((NO_LEADER,), "network"),
    "previous_entry_compared": Mutation((OTHER_ENTRY, OTHER_COMMITTED), "network"),
    "commit_own_term_only": Mutation((INCOMPLETE_LEADER, OTHER_COMMITTED), "figure-eight", nodes=5),
    "leader_opens_with_entry": Mutation((NO_LEADER,), "network"),
    # replication
    "truncate_only_at_conflict": Mutation(
        (NO_MAJORITY, COMMITTED_DELETED, INCOMPLETE_LEADER, "truncation at"), "network"
    ),
    "next_index_above_match": Mutation(("goes back to entry",), "late-resets", masked_by="old_connections_dropped"),
    "lowest_probe_remembered": Mutation((NOT_CAUGHT_UP, "bytes were sent"), "far-apart"),
    "commit_only_verified": Mutation((OTHER_COMMITTED, NO_MAJORITY), "long-tails"),
    "answers_carry_term": Mutation((NOT_CAUGHT_UP, NO_MAJORITY), "late-answers", nodes=5, seconds=14.0),
    "stale_leader_answered": Mutation((NOT_CAUGHT_UP, NO_LEADER), "lost-campaigns"),
    "entries_below_batch": Mutation((NOT_CAUGHT_UP, NO_LEADER, "bytes were sent"), "oversize"),
    "late_append_answers_commit": Mutation((OTHER_COMMITTED, NO_MAJORITY, NOT_CAUGHT_UP), "late-tails", seconds=13.0),
    # durability
    "turns_synced": Mutation((FORGOTTEN,), "kills"),
    "checkpoint_synced": Mutation(
        test="tests/unit/store/test_checkpoint_power_loss.py::test_without_the_rule_it_is_not"
    ),
    "checkpoint_kept": Mutation(test=POWER),
    "apply_only_durable": Mutation(("is not in the log on its disk", "is damaged at entry"), "kills"),
    "meta_page_synced": Mutation((FORGOTTEN, VOTES_TWICE), "kills"),
    "hold_until_durable": Mutation((NOT_ON_DISK, NO_MAJORITY), "kills"),
    "hold_for_gathered_turn": Mutation((NOT_ON_DISK, NO_MAJORITY), "kills"),
    "count_self_when_durable": Mutation((NO_MAJORITY,), "kills"),
    "commit_within_log": Mutation(
        test="tests/unit/raft/consensus/test_durability.py::test_a_loaded_commit_index_is_never_ahead_of_the_log"
    ),
    "stop_on_apply_error": Mutation((NOT_ON_DISK, "behind a hole", TWO_LEADERS, NO_MAJORITY), "full-disks"),
    "contain_callback_errors": Mutation(("the room's own bug",), "raising"),
    # elections
    "pre_vote": Mutation(("nothing had happened to the leader",), "followers"),
    "leader_heard_first": Mutation(("nothing had happened to the leader",), "followers"),
    "lonely_leader_resigns": Mutation(("still leads term",), "lonely"),
    "rounds_of_this_leadership": Mutation(
        test="tests/unit/raft/consensus/test_elections.py::test_a_leadership_begins_without_the_answers_of_an_earlier_one"
    ),
    "wiped_disk_refused": Mutation(("is no member with this disk, and votes",), "disks"),
    "rolled_back_disk_refused": Mutation(("is no member with this disk, and votes", NO_MAJORITY), "rolled-back"),
    "formed_by_all": Mutation(("is no member with this disk, and votes", TWO_LEADERS), "split-formation", seconds=12.0),
    # membership
    "config_from_log": Mutation((NO_MAJORITY, INCOMPLETE_LEADER), "members"),
    "config_goes_with_log": Mutation(
        (NO_MAJORITY, INCOMPLETE_LEADER, OTHER_COMMITTED, NO_LEADER, NOT_CAUGHT_UP), "hasty-changes", nodes=5
    ),
    "one_change_at_a_time": Mutation((INCOMPLETE_LEADER, OTHER_COMMITTED), "hasty-changes", nodes=5),
    "change_after_own_commit": Mutation((INCOMPLETE_LEADER, OTHER_COMMITTED), "two-removals", nodes=4),
    "caught_up_before_voting": Mutation((NO_LEADER,), "empty-voter"),
    "replaced_disk_forgotten": Mutation((NO_MAJORITY, NOT_CAUGHT_UP, "goes back to entry"), "members"),
    "members_only_count": Mutation((NO_MAJORITY,), "half-replaced", nodes=5),
    "majority_stays_connected": Mutation((NO_LEADER,), "gone"),
    # snapshots
    "snapshot_never_rewinds": Mutation(("is not newer than applied", "gives up the entries"), "uneven-tails"),
    "snapshot_verified": Mutation(("received a snapshot of entry",), "spliced"),
    "install_holds_appends": Mutation(
        ("is not in the log", "gives up the entries", "is not newer than applied"), "uneven-tails"
    ),
    "no_empty_snapshot": Mutation(("a snapshot that is not there",), "snapshots"),
    "jumped_proposals_answered": Mutation(("not answered",), "patient-callers"),
    "keep_log_tail": Mutation(("makes a snapshot, and nobody is that far behind",), "laggards"),
    "compaction_below_applied": Mutation(("is not in the log",), "backlog", nodes=5),
    "compaction_below_checkpoint": Mutation(("its checkpoint is of", "is damaged at entry"), "backlog", nodes=5),
    # wire
    "old_connections_dropped": Mutation(("goes back to entry",), "late-resets", masked_by="next_index_above_match"),
    "peers_authenticated": Mutation((NO_MAJORITY, OTHER_ENTRY, NOT_CAUGHT_UP, "two leaders in term"), "strangers"),
    # levels: patches in broken.py
    "later_commands_wait": Mutation((TAKEN, STOPS, OTHER_STATE, OTHER_OUTCOME), "versions"),
    "later_fields_wait": Mutation((TAKEN, OTHER_STATE), "versions"),
    "sparing_fields_are_left_out": Mutation((REFUSED,), "versions"),
    "entries_say_their_level": Mutation((OTHER_STATE, OTHER_OUTCOME), "versions"),
    "level_known_to_all": Mutation((RAISED_UNKNOWN,), "versions"),
    "level_known_to_silent_ones": Mutation((RAISED_UNKNOWN,), "unheard"),
    "held_level_stays": Mutation((RAISED_HELD,), "versions"),
    "older_nodes_stop": Mutation((GOES_ON,), "too-old-logs"),
    "older_nodes_refuse_snapshots": Mutation((GOES_ON,), "too-old"),
    "older_nodes_refuse_stores": Mutation((GOES_ON,), "too-old"),
    "later_rows_wait": Mutation((OTHER_STATE,), "too-old-logs"),
}


@dataclass(frozen=True)
class Found:
    """The result of one hunt."""

    guard: str
    tried: int = 0
    task: Task | None = None  # the run that shows it
    violation: str = ""
    test: str = ""  # covered by this instead
    others: tuple[str, ...] = ()  # violations that show something else

    @property
    def caught(self) -> bool:
        return self.task is not None or bool(self.test)

    def line(self) -> str:
        if self.test:
            return f"{self.guard}: plain test: {self.test}"
        if self.task is None:
            other = f"; found instead: {self.others[0]}" if self.others else ""
            return f"{self.guard}: NOT CAUGHT by {self.tried} seeds{other}"
        seeds = "1 seed" if self.tried == 1 else f"{self.tried} seeds"
        return f"{self.guard}: caught at seed {self.task.seed} after {seeds}: {self.violation}\n  {self.task.command()}"


def task(guard: str, seed: int) -> Task:
    mutation = MUTATIONS[guard]
    out = guard if mutation.masked_by is None else f"{guard},{mutation.masked_by}"
    return Task(seed, mutation.nodes, mutation.seconds, mutation.profile, out)


def hunt(guard: str, first: int, seeds: int = SEEDS) -> Found:
    """Runs seeds from `first` on until one shows the harm."""
    mutation = MUTATIONS[guard]
    if mutation.test is not None:
        return Found(guard, test=mutation.test)
    others: list[str] = []
    for number in range(seeds):
        done, outcome = run(task(guard, first + number))
        if outcome.violation is not None:
            if any(part in outcome.violation for part in mutation.shows):
                return Found(guard, number + 1, done, outcome.violation, others=tuple(others))
            others.append(outcome.violation)
    return Found(guard, seeds, others=tuple(others))


def intact(guard: str, first: int, seeds: int) -> list[tuple[Task, str]]:
    """The same runs with the guard in (and without the one that masks it): the violations, of which there must be
    none."""
    mutation = MUTATIONS[guard]
    failed = []
    if mutation.test is None:
        for seed in range(first, first + seeds):
            whole = Task(seed, mutation.nodes, mutation.seconds, mutation.profile, mutation.masked_by)
            done, outcome = run(whole)
            if outcome.violation is not None:
                failed.append((done, outcome.violation))
    return failed


def _hunt(job: tuple[str, int, int]) -> Found:
    return hunt(*job)


def hunt_all(guards: list[str], first: int, seeds: int = SEEDS, processes: int = 0) -> Iterator[Found]:
    """As they end, one guard per process."""
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count() or 1, begin) as pool:
        yield from pool.imap_unordered(_hunt, [(guard, first, seeds) for guard in guards])


def main(guards: list[str], first: int | None, seeds: int, processes: int) -> int:
    """All guards when none is named. 1 when any is not caught."""
    unknown = sorted(set(guards) - set(MUTATIONS))
    if unknown:
        raise SystemExit(f"no such guard: {', '.join(unknown)}; see tests/sim/mutations.py")
    guards = guards or list(MUTATIONS)
    first = random.SystemRandom().getrandbits(32) if first is None else first
    print(f"first seed {first}", flush=True)
    started = time.monotonic()
    caught = tried = tests = 0
    for found in hunt_all(guards, first, seeds, processes):
        caught += found.caught
        tests += bool(found.test)
        tried += found.tried
        print(found.line(), flush=True)
    print(
        f"{caught} of {len(guards)} guards missed when out, {tests} of them by a plain test; "
        f"{tried} seeds from {first}, {time.monotonic() - started:.0f} s"
    )
    return 0 if caught == len(guards) else 1
