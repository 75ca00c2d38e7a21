"""What a member counts of its part in consensus."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.raft import codec
from raftsched.raft.measures import DISK_S, Measured, Times
from raftsched.raft.status import measured
from tests.support.raft_net import Net
from tests.support.raft_replica import ManualWriter, Solo


def up_to(times: Times, seconds: float) -> int:
    assert seconds in DISK_S
    return dict(times.cumulative())[seconds]


def total(times: Times) -> int:
    return times.cumulative()[-1][1]


def test_a_histogram_counts_each_duration_once() -> None:
    times = Times((0.1, 1.0))
    for seconds in (0.05, 0.1, 0.5, 7.0):
        times.add(seconds)
    assert times.cumulative() == [(0.1, 2), (1.0, 3), (float("inf"), 4)]
    assert times.total_s == pytest.approx(7.65)


def test_an_entry_takes_until_a_majority_has_it(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    commits = b.engine.measures.commits
    term = b.lead()
    assert total(commits) == 0, "nobody has the opening entry yet"
    b.clock.forward(40)
    assert measured(b.replica, 7_000).uncommitted_s == pytest.approx(0.04)
    assert measured(b.replica, 7_000).writing_s == 7
    b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    assert (up_to(commits, 0.025), up_to(commits, 0.05)) == (0, 1)
    assert measured(b.replica).uncommitted_s == 0
    b.propose(1)
    b.clock.forward(200)
    b.propose(2)
    b.clock.forward(20)
    b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))  # both at once
    assert (up_to(commits, 0.025), up_to(commits, 0.1), up_to(commits, 0.25)) == (1, 2, 3)
    b.feed("c", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    assert total(commits) == 3, "each counts once"


def test_what_an_earlier_leadership_left_is_not_counted(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.lead()
    b.feed("c", codec.Ping(b.engine.term + 1, 1))  # another leads meanwhile
    b.clock.forward(60_000)
    assert measured(b.replica).uncommitted_s == 0, "that is the other's affair now"
    term = b.lead()
    b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    assert total(b.engine.measures.commits) == up_to(b.engine.measures.commits, 0.025) == 1


def test_writes_take_until_the_disk_has_them(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, writer=writer)
    writes = b.engine.measures.writes
    before = total(writes)
    b.feed("a", codec.Append(3, 0, 0, 0, [(3, b"")]))
    assert total(writes) == before
    b.clock.forward(300)
    writer.run()
    assert (total(writes), total(writes) - up_to(writes, 0.25)) == (before + 1, 1)


def test_elections_and_leaders(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    counts = b.engine.measures
    b.feed("a", codec.Ping(3, 1))
    b.feed("a", codec.Ping(3, 2))
    assert (counts.elections, counts.won, counts.leaders) == (0, 0, 1)
    b.engine.campaign()
    b.settle()
    b.feed("a", codec.VoteAnswer(b.engine.term, False))
    assert (counts.elections, counts.won, counts.leaders) == (1, 0, 1)
    b.lead()
    assert (counts.elections, counts.won, counts.leaders) == (2, 1, 2)
    b.feed("a", codec.Ping(b.engine.term + 1, 1))
    assert counts.leaders == 3, "the same leader in another term has been elected again"


def test_only_a_leader_says_how_far_the_others_are(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    seen = measured(b.replica)
    assert (seen.voters, seen.connected, seen.lag_entries, seen.clock_offset_s) == (3, {"a": True, "c": True}, {}, {})
    term = b.lead()
    b.propose(1)
    b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    b.feed("a", codec.Pong(term, b.clock.boot_ms(), b.clock.wall_ms() - 1_500, True))
    b.replica.disconnected("c", 1)
    seen = measured(b.replica)
    assert seen.lag_entries == {"a": 0, "c": b.journal.last_index}
    assert seen.clock_offset_s == {"a": -1.5}
    assert seen.connected == {"a": True, "c": False}
    assert seen.log_entries == b.journal.last_index


def test_snapshots_are_counted_where_they_are_sent_and_where_they_are_loaded(tmp_path: Path) -> None:
    net = Net(tmp_path, seed=5)

    def seen(name: str) -> Measured:
        return measured(net.nodes[name].replica)

    assert net.run(10.0, lambda: net.leader() is not None)
    (behind, *_) = [name for name in net.names if net.nodes[name] is not net.leader()]
    net.kill(behind)
    for _ in range(200):  # beyond what the log keeps
        leader = net.leader()
        if leader is not None:
            net.propose(leader.name)
        net.run(0.02)
    net.start(behind)
    assert net.run(20.0, lambda: seen(behind).counts.snapshots_loaded == 1)
    assert net.run(5.0, lambda: sum(seen(name).counts.snapshots_sent for name in net.nodes) == 1)
