"""What a leader sends of a snapshot, how much at once, and what it does when it goes wrong."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from raftsched.raft import codec
from raftsched.raft.guards import ALL, Guards
from raftsched.raft.options import RaftOptions
from tests.support.raft_replica import ManualWriter, Solo, hello
from tests.support.raft_snapshots import SMALL, converse, exchange
from tests.support.raft_store import MemoryStore
from tests.support.stores import checkpoint

both = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])


def leader(
    tmp_path: Path, guards: Guards = ALL, side: ManualWriter | None = None, options: RaftOptions = SMALL
) -> Solo:
    """A leader with a state of some chunks whose log begins late. Follower c turns out to have nothing of it."""
    a = Solo(tmp_path, guards, node="a", options=options, side=side)
    term = a.lead()
    for number in range(40):
        commit(a, number)
    commit(a, 40, kept=False)
    a.sent.clear()
    a.feed("c", codec.AppendAnswer(term, 1, False, True))
    return a


def commit(a: Solo, number: int, *, kept: bool = True) -> None:
    """One command more. `kept`: it survives a crash of `a`, so that its log need not keep it."""
    a.propose(number)
    a.feed("b", codec.AppendAnswer(a.engine.term, a.journal.last_index + 1, True, False))
    if kept:
        checkpoint(a.store)


def follower(tmp_path: Path, a: Solo, node: str = "c", side: ManualWriter | None = None) -> Solo:
    (tmp_path / node).mkdir(exist_ok=True)
    return Solo(tmp_path / node, node=node, options=SMALL, clock=a.clock, side=side)


def hear(a: Solo, seconds: float) -> list[codec.Frame]:
    """Time goes by, b follows, c says that it has nothing; what c was sent of a snapshot."""
    end = a.clock.monotonic() + seconds - 0.01
    while a.clock.monotonic() < end:
        a.pass_time(0.02)
        a.feed("b", codec.Pong(a.engine.term, a.clock.boot_ms(), 0, True))
    sent = [f for p, f in a.sent if p == "c" and isinstance(f, codec.SnapshotOffer | codec.SnapshotChunk)]
    a.sent.clear()
    return sent


def answer(offer: codec.SnapshotOffer, offset: int) -> codec.SnapshotAnswer:
    return codec.SnapshotAnswer(offer.term, offer.index, offer.sha256, offset)


@both
def test_nothing_is_sent_while_the_copy_is_made(tmp_path: Path, guarded: bool) -> None:
    side = ManualWriter()
    a = leader(tmp_path, Guards(no_empty_snapshot=guarded), side)
    a.sent.clear()
    sent = 0
    for _ in range(50):
        a.replica.tick()
        a.settle()
        sent += len(a.take(codec.SnapshotOffer))
    assert sent == 0 if guarded else sent >= 50, "a flood"
    side.run()
    a.settle()
    if guarded:
        assert len(a.take(codec.SnapshotOffer, "c")) == 1


def test_a_follower_behind_the_log_gets_the_state_and_then_entries(tmp_path: Path) -> None:
    a = leader(tmp_path)
    c = follower(tmp_path, a)
    assert a.journal.pinned_index is not None
    converse(a, c, lambda: c.journal.last_index == a.journal.last_index)
    a.pass_time(0.1)
    exchange(a, c)
    assert c.store.history == a.store.history
    assert a.engine.match_index("c") == a.journal.last_index
    assert a.engine.term == c.engine.term


def test_a_copy_has_what_was_applied_when_it_was_begun(tmp_path: Path) -> None:
    side = ManualWriter()
    a = leader(tmp_path, side=side)
    applied = a.journal.applied_index
    a.propose(99)
    a.feed("b", codec.AppendAnswer(a.engine.term, a.journal.last_index + 1, True, False))
    assert a.journal.applied_index == applied + 1
    side.run()
    assert [offer.index for offer in a.take(codec.SnapshotOffer, "c")] == [applied]


def test_no_more_is_on_its_way_than_the_window(tmp_path: Path) -> None:
    side = ManualWriter()
    a = leader(tmp_path, side=side)
    side.run()
    (offer,) = a.take(codec.SnapshotOffer, "c")
    assert offer.size > 3 * SMALL.snapshot_window_bytes
    side.run()
    assert a.take(codec.SnapshotChunk) == [], "nothing before it is asked for"
    a.feed("c", answer(offer, 0))
    side.run()
    chunks = a.take(codec.SnapshotChunk)
    assert [f.offset for f in chunks] == [0, 100, 200]
    a.feed("c", answer(offer, 100), answer(offer, 200))
    assert len(side.jobs) == 1, "one chunk in memory, not the window, waits to be sent"
    side.run()
    assert [f.offset for f in a.take(codec.SnapshotChunk)] == [300, 400]
    a.feed("c", answer(offer, 100), answer(offer, 200), answer(offer, 200))
    side.run()
    assert a.take(codec.SnapshotChunk) == [], "late answers move nothing"


def sent_in(a: Solo, offers: dict[str, codec.SnapshotOffer], seconds: float) -> dict[str, int]:
    """Bytes to each follower while time goes by, all of which are acknowledged at once; b follows as ever."""
    sent = dict.fromkeys(offers, 0)
    end = a.clock.monotonic() + seconds - 0.01
    while a.clock.monotonic() < end:
        a.pass_time(0.02)
        for peer in "bcde":
            a.feed(peer, codec.Pong(a.engine.term, a.clock.boot_ms(), 0, True))
        while chunks := [(p, f) for p, f in a.sent if isinstance(f, codec.SnapshotChunk)]:
            a.sent.clear()
            for peer, chunk in chunks:
                sent[peer] += len(chunk.data)
                a.feed(peer, answer(offers[peer], chunk.offset + len(chunk.data)))
        a.sent.clear()
    return sent


def test_no_more_is_sent_in_a_second_than_the_rate(tmp_path: Path) -> None:
    a = leader(tmp_path, options=replace(SMALL, snapshot_bytes_per_s=500))
    (offer,) = a.take(codec.SnapshotOffer, "c")
    a.feed("c", answer(offer, 0))
    began = sum(len(f.data) for f in a.take(codec.SnapshotChunk, "c"))
    assert 0 < began <= SMALL.snapshot_window_bytes, "a window at most is saved up"
    a.feed("c", answer(offer, began))
    assert offer.size - began > 700, "there is enough left to tell"
    found = sent_in(a, {"c": offer}, 1.0)["c"]
    assert 400 <= found <= 500, "five chunks of 100 bytes, the last of them perhaps a moment later"
    a.feed("c", answer(offer, began + found))
    assert sent_in(a, {"c": offer}, 60.0)["c"] == offer.size - began - found, "it comes to its end"


def test_the_rate_is_shared(tmp_path: Path) -> None:
    a = Solo(tmp_path, node="a", peers="abcde", options=replace(SMALL, snapshot_bytes_per_s=1_000))
    term = a.lead()
    for number in range(40):
        a.propose(number)
        for peer in "bc":
            a.feed(peer, codec.AppendAnswer(term, a.journal.last_index + 1, True, False))
        checkpoint(a.store)
    a.sent.clear()
    for peer in "de":
        a.feed(peer, codec.AppendAnswer(term, 1, False, True))
    offers = {peer: f for peer, f in a.sent if isinstance(f, codec.SnapshotOffer)}
    assert sorted(offers) == ["d", "e"]
    for peer, offer in offers.items():
        a.sent.clear()
        a.feed(peer, answer(offer, 0))
        a.feed(peer, answer(offer, sum(len(f.data) for f in a.take(codec.SnapshotChunk, peer))))
    found = sent_in(a, offers, 1.0)
    assert all(400 <= found[peer] <= 500 for peer in "de"), (found, "neither waits for the other to end")


def test_one_copy_for_all_who_need_one(tmp_path: Path) -> None:
    side = ManualWriter()
    a = Solo(tmp_path, node="a", peers="abcde", options=SMALL, side=side)
    term = a.lead()
    for number in range(40):
        a.propose(number)
        for peer in "bc":
            a.feed(peer, codec.AppendAnswer(term, a.journal.last_index + 1, True, False))
        checkpoint(a.store)
    for peer in "de":
        a.feed(peer, codec.AppendAnswer(term, 1, False, True))
    assert len(side.jobs) == 1
    a.sent.clear()
    side.run()
    offers = [(p, f) for p, f in a.sent if isinstance(f, codec.SnapshotOffer)]
    assert sorted(p for p, _ in offers) == ["d", "e"]
    assert len({f.sha256 for _, f in offers}) == 1
    a.sent.clear()
    for peer, offer in offers:
        a.feed(peer, answer(offer, 0))
    side.run()
    sent = [p for p, f in a.sent if isinstance(f, codec.SnapshotChunk)]
    assert sorted(sent) == ["d"] * 3 + ["e"] * 3, "a window for each"


def test_after_a_reset_the_transfer_goes_on_where_it_was(tmp_path: Path) -> None:
    a = leader(tmp_path)
    c = follower(tmp_path, a)
    size = a.replica.sender._copy.meta.size  # type: ignore[union-attr]
    seen: list[int] = []

    def half() -> bool:
        seen.extend(f.offset for p, f in a.sent if p == "c" and isinstance(f, codec.SnapshotChunk))
        return bool(seen) and seen[-1] > size // 2

    converse(a, c, half)
    written = c.replica.installer.incoming.written  # type: ignore[union-attr]
    a.sent.clear()  # lost with the connection
    for one, other in ((a, "c"), (c, "a")):
        one.replica.disconnected(other, 1)
        one.replica.connected(hello(other), 1)
        one.settle()
    seen.clear()
    copies = a.replica.sender._number
    converse(a, c, lambda: bool(half()) and c.journal.applied_index > 0)
    assert seen[0] == written > 0
    assert a.replica.sender._number == copies


def test_a_copy_is_kept_for_a_while_and_then_deleted(tmp_path: Path) -> None:
    a = leader(tmp_path)
    (copy,) = tmp_path.glob("send-*")
    a.replica.disconnected("c", 1)
    hear(a, SMALL.snapshot_keep_ms / 1000 - 0.2)
    assert copy.exists()
    assert a.journal.pinned_index is not None
    hear(a, 0.5)
    assert list(tmp_path.glob("send-*")) == []
    assert a.journal.pinned_index is None


def test_an_unanswered_offer_is_repeated_now_and_then(tmp_path: Path) -> None:
    a = leader(tmp_path)
    a.sent.clear()
    sent = hear(a, 2.0)
    assert {type(f) for f in sent} == {codec.SnapshotOffer}
    assert 3 <= len(sent) <= 4


def test_a_stuck_transfer_is_given_up_and_begun_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    a.feed("c", answer(offer, 0))
    with caplog.at_level(logging.WARNING):
        sent = hear(a, 7.0)
    assert [r.message.partition(" (")[0] for r in caplog.records] == [
        f"c does not take the snapshot of entry {offer.index}"
    ] * 2
    offers = [f for f in sent if isinstance(f, codec.SnapshotOffer)]
    assert 12 <= len(offers) <= 17
    assert len(sent) - len(offers) == 3, "no chunk goes out that was not asked for"


def test_answers_without_progress_do_not_keep_a_transfer_alive(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A follower that cannot write what it gets, say."""
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    sent = []
    with caplog.at_level(logging.WARNING):
        for _ in range(40):
            a.feed("c", answer(offer, 0))
            sent += hear(a, 0.1)
    assert "c does not take the snapshot" in caplog.text
    assert len(sent) <= 10 * (1 + 3), "an offer and a window for each time"


def test_chunks_that_got_lost_are_sent_again_once_the_offer_is_answered(tmp_path: Path) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    a.feed("c", answer(offer, 0), answer(offer, 100))
    a.sent.clear()
    sent = hear(a, 0.7)
    assert sent == [offer]
    a.feed("c", answer(offer, 100))
    assert [f.offset for f in a.take(codec.SnapshotChunk)] == [100, 200, 300]


def test_who_has_all_is_asked_and_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may take minutes to make a large state ready."""
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    with caplog.at_level(logging.WARNING):
        for _ in range(40):
            a.feed("c", answer(offer, offer.size))
            hear(a, 0.5)
    assert caplog.records == []
    assert a.engine.takes_snapshot("c")


def test_a_copy_that_arrived_damaged_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    a.feed("c", answer(offer, offer.size))
    a.propose(99)
    a.feed("b", codec.AppendAnswer(a.engine.term, a.journal.last_index + 1, True, False))
    assert hear(a, 0.7) == [offer]
    with caplog.at_level(logging.WARNING):
        a.feed("c", answer(offer, 0))
        (again,) = [f for f in hear(a, 0.3) if isinstance(f, codec.SnapshotOffer)]
    assert "could not use" in caplog.text
    assert again.index > offer.index
    assert [p.name for p in tmp_path.glob("send-*")] == ["send-2.snap"]


def test_a_copy_that_cannot_be_read_is_made_anew_after_a_while(tmp_path: Path) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    (copy,) = tmp_path.glob("send-*")
    copy.write_bytes(b"short")
    a.feed("c", answer(offer, 0))
    assert hear(a, 0.3) == []
    assert [type(f) for f in hear(a, 0.5)] == [codec.SnapshotOffer]


def test_a_copy_that_fails_is_tried_again_after_a_while(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    side = ManualWriter()
    a = leader(tmp_path, side=side)
    copy, tries = a.store.copy, 0

    def full(target: Path) -> object:
        nonlocal tries
        tries += 1
        raise OSError("no space left")

    a.store.copy = full  # type: ignore[method-assign, assignment]
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            side.run()
            assert hear(a, 0.1) == []
    assert 3 <= tries <= 5
    assert "no space left" in caplog.text
    assert a.fatal == []
    a.store.copy = copy  # type: ignore[method-assign]
    hear(a, 0.6)
    side.run()
    assert [type(f) for f in hear(a, 0.1)] == [codec.SnapshotOffer]


def test_a_copy_without_room_is_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(MemoryStore, "size_bytes", lambda _: 1 << 60)
    with caplog.at_level(logging.WARNING):
        a = leader(tmp_path)
    assert "are free" in caplog.text
    assert list(tmp_path.glob("send-*")) == []
    assert a.fatal == []


def test_a_copy_that_is_too_old_is_replaced(tmp_path: Path) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    for number in range(100, 160):  # together far larger than the copy, which the log is pinned for
        commit(a, number)
    assert a.journal.first_index > offer.index + 1
    a.sent.clear()
    (again,) = hear(a, 0.1)
    assert again.index > offer.index
    a.feed("c", answer(offer, 0))
    assert a.take(codec.SnapshotChunk) == []
    a.feed("c", answer(again, 0))
    assert a.take(codec.SnapshotChunk)


def test_the_log_behind_the_copy_stays_while_it_is_on_its_way(tmp_path: Path) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    for number in range(100, 106):
        commit(a, number)
    assert a.journal.first_index <= offer.index + 1


def test_a_leader_that_steps_down_sends_no_more_and_keeps_nothing(tmp_path: Path) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    a.feed("b", codec.Ping(offer.term + 1, 1))
    a.feed("c", answer(offer, 0))
    assert hear(a, 1.0) == []
    assert list(tmp_path.glob("send-*")) == []
    assert a.journal.pinned_index is None


def test_a_leader_that_steps_down_while_it_copies_keeps_nothing(tmp_path: Path) -> None:
    side = ManualWriter()
    a = leader(tmp_path, side=side)
    a.feed("b", codec.Ping(a.engine.term + 1, 1))
    side.run()
    assert list(tmp_path.glob("send-*")) == []
    assert a.journal.pinned_index is None
    assert hear(a, 1.0) == []


def test_a_new_connection_begins_with_the_log(tmp_path: Path) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    a.feed("c", answer(offer, 0))
    a.replica.connected(hello("c"), 2)
    a.sent.clear()
    assert hear(a, 1.0) == []
    a.feed("c", codec.AppendAnswer(a.engine.term, 1, False, True), connection=2)
    assert a.take(codec.SnapshotOffer, "c") == [offer]


def test_answers_to_what_was_not_offered_count_for_nothing(tmp_path: Path) -> None:
    a = leader(tmp_path)
    (offer,) = a.take(codec.SnapshotOffer, "c")
    good = answer(offer, 0)
    for wrong in (
        msgspec.structs.replace(good, term=offer.term - 1),
        msgspec.structs.replace(good, index=offer.index - 1),
        msgspec.structs.replace(good, sha256=bytes(32)),
        msgspec.structs.replace(good, offset=offer.size + 1),
        msgspec.structs.replace(good, offset=-1),
    ):
        a.feed("c", wrong)
    a.feed("b", good)
    assert a.take(codec.SnapshotChunk) == []
    a.feed("c", good)
    assert len(a.take(codec.SnapshotChunk)) == 3
