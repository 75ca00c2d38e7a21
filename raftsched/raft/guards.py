"""Switches of the rules that keep consensus safe.

All are on in production. Tests take out one at a time and show the harm it prevents: a test that passes either way
guards nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Guards:
    """Each field is named for what it guards."""

    # replication
    truncate_only_at_conflict: bool = True  # a late or repeated append deletes nothing that matches
    next_index_above_match: bool = True  # a stale "start lower" never goes below what is acknowledged
    lowest_probe_remembered: bool = True  # answers to pipelined appends cannot move a probe up again
    commit_only_verified: bool = True  # the leader's commit index counts as far as this message was verified
    answers_carry_term: bool = True  # an acknowledgement of another term counts for nothing
    stale_leader_answered: bool = True  # a deposed leader is told the newer term
    entries_below_batch: bool = True  # no entry is larger than one message may be
    # durability
    hold_until_durable: bool = True  # votes and acknowledgements leave after the disk has them
    count_self_when_durable: bool = True  # the leader is one of the majority up to its own durable entry only
    commit_within_log: bool = True  # a loaded commit index is never ahead of the loaded log
    stop_on_apply_error: bool = True  # anything raised while applying stops the node
    contain_callback_errors: bool = True  # a subscriber's exception does not reach the engine
    # elections
    pre_vote: bool = True  # the term is raised only when a majority would vote
    wiped_disk_refused: bool = True  # a node whose disk is another one neither votes nor counts
    # snapshots
    snapshot_never_rewinds: bool = True  # none is installed over a newer state or over a matching log
    snapshot_verified: bool = True  # chunks must follow one another; size and checksum are compared
    no_empty_snapshot: bool = True  # nothing is sent while the copy is being made
    jumped_proposals_answered: bool = True  # proposals a snapshot may have jumped over get "unknown outcome"
    keep_log_tail: bool = True  # compaction leaves a tail for laggards
    # wire
    old_connections_dropped: bool = True  # only the newest connection of a peer is heard
    peers_authenticated: bool = True  # both ends prove that they hold the cluster key


ALL = Guards()
