"""The rules of Raft itself, each with its switch and without it: the second shows that the test can fail.

Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), figure 2 and section 5.4.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from raftsched.errors import RaftschedError
from raftsched.raft import codec
from raftsched.raft.guards import Guards
from tests.support.raft_replica import OPTIONS, Solo, append, unique

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


@both
def test_one_vote_per_term(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(one_vote_per_term=guarded))
    b.feed("a", codec.VoteRequest(3, 0, 0))
    b.feed("c", codec.VoteRequest(3, 0, 0))
    assert [f.granted for f in b.take(codec.VoteAnswer)] == [True, not guarded]


@both
def test_a_vote_is_remembered_by_the_disk(tmp_path: Path, guarded: bool) -> None:
    guards = Guards(vote_remembered=guarded)
    b = Solo(tmp_path, guards)
    b.feed("a", codec.VoteRequest(3, 0, 0))
    again = b.crash(tmp_path, guards)
    again.feed("c", codec.VoteRequest(3, 0, 0))
    assert [f.granted for f in again.take(codec.VoteAnswer)] == [not guarded]


@both
@pytest.mark.parametrize(("index", "term"), [(9, 1), (1, 2)], ids=["older term", "shorter"])
def test_no_vote_for_an_older_log(tmp_path: Path, guarded: bool, index: int, term: int) -> None:
    b = Solo(tmp_path, Guards(candidate_log_compared=guarded))
    b.feed("a", append(2, 0, 0, [2, 2]))
    b.feed("c", codec.VoteRequest(3, index, term))
    assert [f.granted for f in b.take(codec.VoteAnswer)] == [not guarded]


@both
def test_a_deposed_leader_changes_nothing(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(older_terms_refused=guarded))
    b.feed("a", append(3, 0, 0, [1, 3]))
    b.feed("c", append(2, 1, 1, [2, 2]))
    assert b.log() == ([(1, 1), (2, 3)] if guarded else [(1, 1), (2, 2), (3, 2)])
    assert (b.engine.leader_id == "a") is guarded


@both
def test_a_newer_term_is_taken_before_anything_else(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(newer_term_adopted=guarded))
    b.feed("a", append(3, 0, 0, [1, 3]))
    assert b.take(codec.AppendAnswer)[-1].term == (3 if guarded else 0)
    assert b.engine.term == (3 if guarded else 0)


@both
def test_a_vote_of_an_older_term_counts_for_nothing(tmp_path: Path, guarded: bool) -> None:
    """Who granted it may have voted for another candidate since."""
    b = Solo(tmp_path, Guards(votes_carry_term=guarded))
    for _ in range(2):
        b.engine.campaign()
        b.settle()
    b.feed("a", codec.VoteAnswer(b.engine.term - 1, True))
    assert b.engine.is_leader is not guarded
    b.feed("a", codec.VoteAnswer(b.engine.term, True))
    assert b.engine.is_leader


@both
def test_a_late_append_below_the_commit_index_acknowledges_no_more(tmp_path: Path, guarded: bool) -> None:
    """What is behind that may be an earlier leader's, and not what the one who hears of it has there."""
    b = Solo(tmp_path, Guards(late_append_answers_commit=guarded))
    b.feed("a", append(1, 0, 0, [1, 1, 1, 1, 1], commit=3))
    b.sent.clear()
    b.feed("c", append(2, 1, 1, [1]))
    assert [(f.term, f.next_index) for f in b.take(codec.AppendAnswer)] == [(2, 4 if guarded else 6)]


@both
def test_entries_go_only_behind_the_one_before_them(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(previous_entry_compared=guarded))
    b.feed("a", append(1, 0, 0, [1, 1]))
    b.feed("c", append(3, 2, 2, [3]))
    assert b.log() == ([(1, 1), (2, 1)] if guarded else [(1, 1), (2, 1), (3, 3)])


@both
def test_an_earlier_leaders_entry_is_committed_along_with_an_own_one(tmp_path: Path, guarded: bool) -> None:
    """Section 5.4.2: it may be on a majority and still be overwritten by who never saw it."""
    b = Solo(tmp_path, Guards(commit_own_term_only=guarded))
    b.feed("a", append(2, 0, 0, [2]))
    term = b.lead()
    b.feed("c", codec.AppendAnswer(term, 2, True, False))
    assert b.journal.commit_index == (0 if guarded else 1)
    b.feed("c", codec.AppendAnswer(term, 3, True, False))
    assert b.journal.commit_index == 2


@both
def test_what_an_earlier_leader_left_is_committed_without_a_new_write(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(leader_opens_with_entry=guarded))
    b.feed("a", append(2, 0, 0, [2]))
    term = b.lead()
    last = b.journal.last_index
    b.feed("a", codec.AppendAnswer(term, last + 1, True, False))
    b.feed("c", codec.AppendAnswer(term, last + 1, True, False))
    assert (b.journal.commit_index >= 1) is guarded


@both
def test_who_hears_a_leader_agrees_to_no_election(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(leader_heard_first=guarded))
    b.feed("a", codec.Ping(3, 1))
    b.feed("c", codec.PreVoteRequest(4, 9, 9, 1))
    assert [f.granted for f in b.take(codec.PreVoteAnswer)] == [not guarded]


@both
def test_a_leader_that_no_majority_answers_resigns(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(lonely_leader_resigns=guarded))
    b.lead()
    b.pass_time(OPTIONS.fallback_ms / 1000 + 0.2)
    assert b.engine.is_leader is not guarded


@both
def test_compaction_leaves_what_is_not_applied(tmp_path: Path, guarded: bool) -> None:
    """However many bytes a leader without a majority has gathered."""
    options = replace(OPTIONS, keep_bytes=1_000)
    b = Solo(tmp_path, Guards(compaction_below_applied=guarded), options=options)
    b.lead()
    for _ in range(100):
        b.engine.append(bytes(100))
        b.settle()
    assert b.journal.applied_index == 0
    assert (b.log()[0] == (1, b.engine.term)) is guarded


@both
def test_a_batch_that_no_entry_can_carry_is_refused(tmp_path: Path, guarded: bool) -> None:
    b = Solo(tmp_path, Guards(entries_below_batch=guarded))
    b.lead()
    batch = [unique(n) for n in range(OPTIONS.entry_max_bytes // len(unique(1)) + 1)]
    got: list[object] = []
    if guarded:
        with pytest.raises(RaftschedError, match="do not fit one entry"):
            b.replica.propose(batch, b.clock.monotonic() + 5, lambda answers, error: got.append(error))
    else:
        b.replica.propose(batch, b.clock.monotonic() + 5, lambda answers, error: got.append(error))
    b.settle()
    assert (b.journal.last_index == 1) is guarded
