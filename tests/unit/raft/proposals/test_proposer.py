"""From the caller to the log and back."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from raftsched.core.entry import BatchResult, decode_entry
from raftsched.errors import NoLeader, Overloaded, RaftschedError, UnknownOutcome
from raftsched.raft import codec
from raftsched.raft.guards import ALL
from raftsched.raft.options import RaftOptions
from raftsched.raft.proposals.proposer import Proposer
from tests.support.raft_net import Net
from tests.support.raft_replica import OPTIONS, ManualWriter, Solo, numbers, unique

TIGHT = RaftOptions(
    election_min_ms=300,
    election_max_ms=600,
    heartbeat_ms=50,
    entry_max_bytes=2_000,
    waiting_max_bytes=5_000,
    queue_max_bytes=1_000,
)


def test_all_commands_of_a_write_travel_as_one_entry(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, peers="b", writer=writer)
    while not b.replica.leading:
        b.pass_time(0.1)
        writer.run()
    b.settle()
    first = b.propose(1)
    rest = [b.propose(n) for n in range(2, 40)]  # while the write with the first one runs
    before = b.journal.last_index
    for _ in range(4):
        writer.run()
        b.settle()
    assert b.journal.last_index == before + 1
    assert numbers(b.journal.entries(before + 1, 1 << 20)[0].data) == list(range(2, 40))
    assert all(len(got) == 1 and len(got[0]) == 1 for got in [first, *rest])


def test_each_caller_gets_its_own_answers(tmp_path: Path) -> None:
    b = Solo(tmp_path, peers="b", is_member=False)
    b.pass_time(1.0)
    one, three = b.propose(1), b.propose(2, 3, 4)
    assert [len(one[0]), len(three[0])] == [1, 3]


def test_an_entry_is_bounded_by_bytes_and_by_commands(tmp_path: Path) -> None:
    b = Solo(tmp_path, options=TIGHT)
    term = b.lead()
    for origin in range(1, 20):
        b.replica.queue.add((origin, 1, [unique(origin, 400)]))
    for _ in range(20):
        b.settle()
    b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    sizes = [len(e.data) for e in b.journal.entries(2, 1 << 20)]
    assert len(sizes) > 3
    assert max(sizes) <= TIGHT.entry_max_bytes
    many = Solo(tmp_path)
    with pytest.raises(RaftschedError) as error:
        many.replica.propose([b"x"] * 4_001, 0.0, None)
    assert error.value.code == "too-large"
    with pytest.raises(RaftschedError, match="do not fit one entry"):
        b.replica.propose([unique(1, 3_000)], 0.0, None)


def test_a_bounded_number_of_bytes_waits(tmp_path: Path) -> None:
    b = Solo(tmp_path, options=TIGHT)
    b.replica.propose([unique(1, 1_800)], b.clock.monotonic() + 1, None)
    b.replica.propose([unique(2, 1_800)], b.clock.monotonic() + 1, None)
    with pytest.raises(Overloaded):
        b.replica.propose([unique(3, 1_800)], b.clock.monotonic() + 1, None)
    b.pass_time(1.1)
    b.replica.propose([unique(1, 400)], b.clock.monotonic() + 1, None)  # room again


def test_what_was_applied_before_has_an_unknown_outcome() -> None:
    """Its answers went to an earlier entry, of which this node may have seen a snapshot only."""
    got: list[tuple[object, object]] = []
    proposer = Proposer(7, OPTIONS, ALL)
    proposer.add([unique(1)], 5.0, lambda answers, error: got.append((answers, error)))
    [(origin, seq, _)] = proposer.batches(10_000)
    proposer.applied(BatchResult(origin, seq, None))
    assert [(answers, type(error)) for answers, error in got] == [(None, UnknownOutcome)]


def test_never_sent_is_no_leader_and_sent_is_unknown(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    alone = b.propose(1, timeout=0.2)
    b.pass_time(0.3)
    assert isinstance(alone[0], NoLeader)
    b.feed("a", codec.Ping(1, 1))
    sent = b.propose(2, timeout=0.2)
    assert len(b.take(codec.Propose, "a")) == 1
    b.pass_time(0.3)
    assert isinstance(sent[0], UnknownOutcome)
    assert len(sent) == 1


def test_without_a_leader_it_waits_no_longer_than_it_should(tmp_path: Path) -> None:
    b = Solo(tmp_path, options=replace(OPTIONS, leader_wait_ms=1_000))
    alone = b.propose(1, timeout=10.0)
    b.replica.submit([unique(2)])  # nobody waits for that
    b.pass_time(0.9)
    assert alone == []
    b.pass_time(0.2)
    assert isinstance(alone[0], NoLeader)
    later = b.propose(3, timeout=10.0)
    b.pass_time(0.9)
    assert later == []
    b.feed("a", codec.Ping(1, 1))
    sent = [raw for f in b.take(codec.Propose, "a") for batch in f.batches for raw in batch[2]]
    assert sent == [unique(2), unique(3)]
    b.pass_time(5.0)
    assert later == [], "it was sent: only its outcome tells"


def test_with_a_leader_it_waits_for_its_turn(tmp_path: Path) -> None:
    options = replace(OPTIONS, leader_wait_ms=1_000, queue_max_bytes=1)
    b = Solo(tmp_path, options=options)
    proposer = b.replica.proposer
    answers: list[object] = []
    proposer.add([unique(1)], 10.0, lambda given, error: answers.append(error))
    for now in (0.0, 2.0, 4.0):
        proposer.expire(now, has_leader=True)
    assert answers == []
    proposer.expire(4.0, has_leader=False)
    proposer.expire(4.9, has_leader=False)
    assert answers == []
    proposer.expire(5.0, has_leader=False)
    assert isinstance(answers[0], NoLeader)


def test_unanswered_batches_go_to_the_next_leader_in_order(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", codec.Ping(1, 1))
    b.propose(1)
    b.propose(2)
    first = [batch for f in b.take(codec.Propose, "a") for batch in f.batches]
    b.feed("c", codec.Ping(2, 1))
    again = [batch for f in b.take(codec.Propose, "c") for batch in f.batches]
    assert again == first
    assert [seq for _, seq, _ in again] == [1, 2]


def test_unanswered_batches_are_sent_again_after_a_reconnect(tmp_path: Path) -> None:
    from tests.support.raft_replica import hello

    b = Solo(tmp_path)
    b.feed("a", codec.Ping(1, 1))
    b.propose(1)
    first = b.take(codec.Propose, "a")
    b.replica.disconnected("a", 1)
    b.settle()
    b.replica.connected(hello("a"), 5)
    b.settle()
    assert b.take(codec.Propose, "a") == first


def test_a_leader_that_is_full_says_so_and_is_asked_again(tmp_path: Path) -> None:
    writer = ManualWriter()
    b = Solo(tmp_path, options=TIGHT, writer=writer)
    b.engine.campaign()
    while not b.engine.is_leader:
        b.settle()
        writer.run()
        b.feed("a", codec.VoteAnswer(b.engine.term, True))
    term = b.engine.term
    for seq in range(1, 6):
        b.feed("a", codec.Propose(term, [(77, seq, [unique(seq, 400)])]))
    assert len(b.take(codec.ProposeRefused, "a")) > 0
    follower = Solo(tmp_path, node="a")
    follower.feed("b", codec.Ping(term, 1))
    follower.propose(1)
    sent = follower.take(codec.Propose, "b")
    follower.feed("b", codec.ProposeRefused(term))
    follower.pass_time(0.1)
    assert follower.take(codec.Propose, "b") == sent


def test_who_does_not_lead_takes_no_proposals(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", codec.Ping(3, 1))
    b.feed("c", codec.Propose(3, [(7, 1, [unique(1)])]))
    assert b.take(codec.ProposeRefused, "c") == [codec.ProposeRefused(3)]
    assert not b.replica.queue


def test_a_batch_proposed_twice_is_applied_once(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    term = b.lead()
    for _ in range(2):
        b.feed("a", codec.Propose(term, [(7, 1, [unique(1)])]))
    applied: list[bool] = []
    b.replica.subscribe(
        lambda entries: applied.extend(x.answers is not None for e in entries for x in e.batches if x.origin == 7)
    )
    b.feed("a", codec.AppendAnswer(term, b.journal.last_index + 1, True, False))
    assert applied == [True, False]


def test_stopping_answers_everybody(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    waiting = b.propose(1)
    b.replica.stop()
    assert isinstance(waiting[0], NoLeader)
    with pytest.raises(NoLeader):
        b.propose(2)


def test_answers_come_from_the_own_apply_on_every_node(tmp_path: Path) -> None:
    net = Net(tmp_path, random.SystemRandom().getrandbits(32))
    assert net.run(20.0, lambda: net.leader() is not None)
    for name in "abc":
        number = net.propose(name)
        store = net.stores[name]
        assert net.run(2.0, lambda n=number: n in net.acknowledged)  # type: ignore[misc]
        assert any(number in numbers(data) for _, data in store.history.values()), "read your own writes"


def test_an_entry_carries_the_leaders_time(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.lead()
    b.propose(1)
    assert decode_entry(b.journal.entries(2, 1000)[0].data).now_ms == b.clock.wall_ms()


@pytest.mark.parametrize("jump", [3_600_000, -3_600_000])
def test_a_wall_clock_that_was_set_stamps_nothing_until_it_is_trusted(tmp_path: Path, jump: int) -> None:
    b = Solo(tmp_path, peers="b", is_member=False)
    b.pass_time(1.0)

    def stamp() -> int:
        b.propose(1)
        b.settle()
        last = b.journal.last_index
        return decode_entry(b.journal.entries(last, 1 << 20)[0].data).now_ms

    b.replica.timestamps.trust(b.clock.wall_ms() - b.clock.boot_ms())
    before = stamp()
    assert before == b.clock.wall_ms()
    b.clock.wall += jump
    b.pass_time(0.2)
    assert 0 <= stamp() - before <= 1_000
    b.replica.timestamps.trust(b.clock.wall_ms() - b.clock.boot_ms())
    assert stamp() == b.clock.wall_ms()


def opening_ms(b: Solo, term: int) -> int:
    """What the opening entry of the leadership is stamped with."""
    newest = next(e for e in b.journal.entries(1, 1 << 20) if e.term == term)
    return decode_entry(newest.data).now_ms


@pytest.mark.parametrize("wrong", [3_600_000, -3_600_000])
def test_a_new_leader_with_a_wrong_clock_goes_on_from_the_time_that_the_old_one_showed(
    tmp_path: Path, wrong: int
) -> None:
    b = Solo(tmp_path)
    right = b.clock.wall_ms()
    b.clock.wall += wrong
    b.feed("a", codec.Ping(3, 1, right))
    b.pass_time(0.1)
    b.feed("a", codec.Ping(3, 2))  # a leader that does not know its clock (any more) says nothing
    b.feed("c", codec.Ping(2, 2, right + 9_000_000))  # nor does one that is deposed
    term = b.lead()
    assert right <= opening_ms(b, term) <= b.clock.wall_ms() - wrong
    # compared, and after all it is the others that were wrong
    b.replica.timestamps.trust(b.clock.wall_ms() - b.clock.boot_ms())
    assert b.replica.timestamps.now_ms() == b.clock.wall_ms()


def test_a_new_leader_whose_clock_agrees_goes_by_its_own(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.feed("a", codec.Ping(3, 1, b.clock.wall_ms() + 400))
    term = b.lead()
    assert opening_ms(b, term) <= b.clock.wall_ms()


def test_heartbeats_show_the_logs_time_once_it_is_known(tmp_path: Path) -> None:
    b = Solo(tmp_path)
    b.lead()

    def shown() -> int:
        b.sent.clear()
        b.pass_time(0.1)
        return [frame.log_ms for _, frame in b.sent if isinstance(frame, codec.Ping)][-1]

    assert shown() == 0
    b.replica.timestamps.trust(b.clock.wall_ms() - b.clock.boot_ms())
    before = b.clock.wall_ms()
    assert before <= shown() <= b.clock.wall_ms()
    b.clock.wall += 3_600_000
    assert before <= shown() <= b.clock.wall_ms() - 3_600_000
