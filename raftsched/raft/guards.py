"""Switches of the rules that keep consensus safe.

All are on in production. Tests take out one at a time and show the harm it prevents: a test that passes either way
guards nothing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Guards:
    """Each field is named for what it guards."""

    # the rules of Raft itself
    one_vote_per_term: bool = True  # a second candidate of a term gets none
    vote_remembered: bool = True  # term and vote are on the disk
    candidate_log_compared: bool = True  # no vote for a log that is older than the voter's
    older_terms_refused: bool = True  # a deposed leader's messages change nothing
    votes_carry_term: bool = True  # a vote that was granted in another term counts for nothing
    newer_term_adopted: bool = True  # a newer term counts before anything else is done with a message
    previous_entry_compared: bool = True  # entries are appended only behind an entry that the leader has, too
    commit_own_term_only: bool = True  # entries of earlier leaders are committed along with an own entry
    leader_opens_with_entry: bool = True  # an own entry at once commits the entries of earlier leaders
    # replication
    truncate_only_at_conflict: bool = True  # a late or repeated append deletes nothing that matches
    next_index_above_match: bool = True  # a stale "start lower" never goes below what is acknowledged
    lowest_probe_remembered: bool = True  # answers to pipelined appends cannot move a probe up again
    commit_only_verified: bool = True  # the leader's commit index counts as far as this message was verified
    answers_carry_term: bool = True  # an acknowledgement of another term counts for nothing
    late_append_answers_commit: bool = True  # an append below the commit index is acknowledged up to that index only
    stale_leader_answered: bool = True  # a deposed leader is told the newer term
    entries_below_batch: bool = True  # no entry is larger than one message may be
    # durability
    turns_synced: bool = True  # a write of the log that has returned is on the disk (given to Store.open)
    meta_page_synced: bool = True  # and so is the meta page by which LMDB finds it (given to Store.open)
    checkpoint_synced: bool = True  # a checkpoint names only what is on the disk (given to Store.open)
    checkpoint_kept: bool = True  # and its pages are not used again before there is another one (the same)
    apply_only_durable: bool = True  # nothing is applied before it is in the log on this disk
    hold_until_durable: bool = True  # votes and acknowledgements leave after the disk has them
    hold_for_gathered_turn: bool = True  # changes gathered while a batch is written are not durable when that one ends
    count_self_when_durable: bool = True  # the leader counts itself up to its own durable entry only
    commit_within_log: bool = True  # a loaded commit index is never ahead of the loaded log
    stop_on_apply_error: bool = True  # anything raised while a batch is written stops the node
    contain_callback_errors: bool = True  # a subscriber's exception does not reach the engine
    # elections
    pre_vote: bool = True  # a term is raised only when a majority would vote for the candidate
    leader_heard_first: bool = True  # a node that hears a leader agrees to no election
    lonely_leader_resigns: bool = True  # a leader steps down when no majority answers it any more
    rounds_of_this_leadership: bool = True  # heartbeats answered in an earlier leadership count for nothing
    wiped_disk_refused: bool = True  # a node whose disk is another one neither votes nor counts
    rolled_back_disk_refused: bool = True  # a disk put back to an earlier state neither votes nor counts
    formed_by_all: bool = True  # no vote before every listed node has said that it remembers the same disks
    # membership
    config_from_log: bool = True  # a configuration counts from its append on, not from its apply
    config_goes_with_log: bool = True  # a log that a snapshot replaced leaves no configuration behind
    one_change_at_a_time: bool = True  # the next change begins only when the last one is committed
    change_after_own_commit: bool = True  # a new leader changes members only when its opening entry is committed
    caught_up_before_voting: bool = True  # a new member counts only when it has (nearly) everything
    replaced_disk_forgotten: bool = True  # entries and votes of a replaced disk count for nothing
    members_only_count: bool = True  # acknowledgements and votes of non-members count for nothing
    majority_stays_connected: bool = True  # no change that leaves the voters without a connected majority
    # snapshots
    snapshot_never_rewinds: bool = True  # no snapshot is installed over a newer state or over a matching log
    snapshot_verified: bool = True  # chunks count with the right term, index, offset and checksum only
    install_holds_appends: bool = True  # no entry is acknowledged that would be lost with the replaced state
    no_empty_snapshot: bool = True  # nothing is sent while the copy is being made
    jumped_proposals_answered: bool = True  # proposals a snapshot may have jumped over get "unknown outcome"
    keep_log_tail: bool = True  # compaction leaves a tail for laggards
    compaction_below_applied: bool = True  # entries that are not applied yet are never dropped
    compaction_below_checkpoint: bool = True  # nor those that a crash would take from the tables
    # wire
    old_connections_dropped: bool = True  # only the newest connection of a peer is heard
    peers_authenticated: bool = True  # both ends prove that they hold the cluster key


ALL = Guards()
