"""How much is on its way: no more than lets heartbeats through in time, no less than the connection carries."""

from __future__ import annotations

from pathlib import Path

import pytest

from raftsched.core.commands import Accepted
from raftsched.core.entry import BatchResult
from raftsched.errors import Overloaded
from raftsched.raft import codec
from raftsched.raft.guards import ALL
from raftsched.raft.options import RaftOptions
from raftsched.raft.proposals.proposer import Proposer
from raftsched.raft.window import Window
from tests.support.raft_replica import Solo, unique
from tests.unit.raft.house import Leader

OPTIONS = RaftOptions()
MOST = 8 << 20


def answered(seq: int) -> BatchResult:
    return BatchResult(9, seq, [Accepted()])


def link(window: Window, bytes_per_s: float, beats: int, best_ms: float = 1.0) -> list[float]:
    """A connection that is kept full: the delays that its heartbeats met."""
    delays = []
    for _ in range(beats):
        window.used(window.size)
        delays.append(best_ms + window.size / bytes_per_s * 1000)
        window.measured(delays[-1])
    return delays


@pytest.mark.parametrize("mbit", [1, 2, 10, 50])
def test_on_a_thin_link_heartbeats_arrive_in_time_and_the_link_is_full(mbit: int) -> None:
    window = Window(OPTIONS, MOST)
    window.measured(1.0)
    rate = mbit * 1e6 / 8
    delays = link(window, rate, 50)[10:]
    assert max(delays) < OPTIONS.election_min_ms
    assert window.size >= min(0.1 * rate, OPTIONS.window_min_bytes)


def test_on_a_fast_one_it_grows_to_its_limit() -> None:
    window = Window(OPTIONS, MOST)
    window.measured(1.0)
    link(window, 1e9, 6)
    assert window.size == MOST


def test_one_that_is_far_away_has_as_large_a_window_as_a_near_one() -> None:
    window = Window(OPTIONS, MOST)
    window.measured(250.0)
    link(window, 1e9, 6, best_ms=250.0)
    assert window.size == MOST


def test_what_is_not_used_does_not_grow() -> None:
    window = Window(OPTIONS, MOST)
    before = window.size
    for _ in range(10):
        window.used(1_000)
        window.measured(1.0)
    assert window.size == before


def test_a_link_that_becomes_thin_is_found_out_at_once() -> None:
    window = Window(OPTIONS, MOST)
    window.measured(1.0)
    link(window, 1e9, 6)
    link(window, 1.25e6, 3)
    assert window.size < 500_000


def test_the_leader_sends_no_further_than_the_window(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    for n in range(40):
        b.propose(n + 1)
        b.replica.propose([unique(n, 50_000)], b.clock.monotonic() + 60, None)
        b.settle()
    frames = b.take(codec.Append, "a")
    sent = sum(len(data) for frame in frames for _, data in frame.entries)
    assert OPTIONS.window_first_bytes <= sent <= OPTIONS.window_first_bytes + 60_000
    assert max(sum(len(data) for _, data in frame.entries) for frame in frames) <= OPTIONS.append_bytes


def test_a_slow_heartbeat_makes_it_smaller_and_so_are_entries(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    before = b.engine.entry_bytes
    for took_s in (0.001, 0.5, 0.5):
        sent_at_ms = b.clock.boot_ms()
        b.clock.forward(1000 * took_s)
        for peer in "ac":
            b.feed(peer, codec.Pong(b.term, sent_at_ms, b.clock.wall_ms(), True))
    assert OPTIONS.window_min_bytes <= b.engine.entry_bytes < before


def test_a_follower_sends_no_further_than_the_window_until_the_leader_has_it(tmp_path: Path) -> None:
    """Its acknowledgements and its answers to heartbeats go the same way."""
    b = Solo(tmp_path)
    b.feed("a", codec.Ping(1, 1))
    for n in range(40):
        b.replica.propose([unique(n, 50_000)], b.clock.monotonic() + 60, None)
    b.settle()

    def sent() -> tuple[int, int]:
        batches = [batch for frame in b.take(codec.Propose) for batch in frame.batches]
        return sum(len(raw) for _, _, commands in batches for raw in commands), max(
            (s for _, s, _ in batches), default=0
        )

    size, last = sent()
    assert OPTIONS.window_first_bytes <= size <= OPTIONS.window_first_bytes + 110_000
    b.settle()
    assert sent() == (0, 0)
    b.feed("a", codec.Ping(1, 2, taken=last))
    assert sent()[1] > last


def test_the_leader_says_in_its_heartbeats_what_it_has(tmp_path: Path) -> None:
    b = Leader(tmp_path).opened()
    b.feed("a", codec.Propose(b.term, [(7, 41, [unique(1)]), (7, 42, [unique(2)])]))
    b.sent.clear()
    b.pass_time(0.2)
    assert {(peer, frame.taken) for peer, frame in b.sent if isinstance(frame, codec.Ping)} == {("a", 42), ("c", 0)}


def test_what_would_not_be_done_by_its_deadline_is_refused_at_once() -> None:
    proposer = Proposer(9, OPTIONS, ALL)
    for _ in range(100):
        proposer.add([b"x" * 100_000], 60.0, None, now=0.0)
    now = 0.0
    while now < 4.0:  # a batch of about 100 kB is answered every 0.1 s
        proposer.sample(now)
        for _, seq, _ in proposer.batches(100_000, 100_000):
            proposer.applied(answered(seq))
        now += 0.1
    with pytest.raises(Overloaded, match=r"bytes wait here, and \d+ a second get through"):
        proposer.add([b"x"], now + 5.0, None, now=now)
    proposer.add([b"x"], now + 30.0, None, now=now)
    proposer.forget_rate()  # another leader: nothing is known
    proposer.add([b"x"], now + 5.0, None, now=now)
