"""How far the leader has committed: one question for all that ask, and nobody waits for a leader that keeps silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from raftsched.raft.proposals import committed
from raftsched.raft.proposals.committed import ANSWER, QUESTION, Committed
from tests.support.clock import ManualClock


class Network:
    """Messages stay here until they are delivered."""

    def __init__(self) -> None:
        self.clock = ManualClock(50_000, 50_000)
        self.nodes: dict[str, Raft] = {}
        self.under_way: list[tuple[str, str, str, bytes]] = []

    def deliver(self) -> None:
        messages, self.under_way = self.under_way, []
        for sender, peer, kind, payload in messages:
            self.nodes[peer].handlers[kind](sender, payload)

    @property
    def questions(self) -> int:
        return sum(kind == QUESTION for _, _, kind, _ in self.under_way)


class Raft:
    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.name = name
        self.leader_id: str | None = "n1"
        self.is_leader = name == "n1"
        self.commit_index = 0
        self.quorum_ms: int | None = network.clock.boot
        self.reachable = True
        self.handlers: dict[str, Callable[[str, bytes], None]] = {}
        network.nodes[name] = self
        self.committed = Committed(self, network.clock)

    def quorum_sent_at_ms(self) -> int | None:
        return self.quorum_ms

    def send(self, peer: str, kind: str, payload: bytes) -> bool:
        if self.reachable:
            self.network.under_way.append((self.name, peer, kind, payload))
        return self.reachable

    def on_message(self, kind: str, handler: Callable[[str, bytes], None]) -> None:
        self.handlers[kind] = handler


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_all_that_ask_share_a_question_and_later_ones_the_next() -> None:
    async def main() -> None:
        network = Network()
        leader, follower = Raft(network, "n1"), Raft(network, "n2")
        leader.commit_index = 7
        first = [asyncio.create_task(follower.committed.index(5)) for _ in range(3)]
        await settle()
        assert network.questions == 1, "who comes in the same write waits for the next"
        network.deliver()  # the question
        leader.commit_index = 8
        late = asyncio.create_task(follower.committed.index(5))
        await settle()
        assert network.questions == 0, "one at a time"
        network.deliver()  # the answer
        await settle()
        assert first[0].result() == 7
        assert not late.done(), "the first question was asked before it came"
        network.deliver()
        network.deliver()
        assert await late == 8
        assert [await one for one in first[1:]] == [8, 8]

    asyncio.run(main())


def test_the_leader_asks_itself() -> None:
    async def main() -> None:
        network = Network()
        leader = Raft(network, "n1")
        leader.commit_index = 3
        asking = asyncio.create_task(leader.committed.index(5))
        await settle()
        network.deliver()
        network.deliver()
        assert await asking == 3

    asyncio.run(main())


@pytest.mark.parametrize("quorum_ms", [None, 49_000])
def test_who_may_lead_no_longer_does_not_say(quorum_ms: int | None) -> None:
    async def main() -> None:
        network = Network()
        leader, follower = Raft(network, "n1"), Raft(network, "n2")
        leader.commit_index, leader.quorum_ms = 7, quorum_ms
        asking = asyncio.create_task(follower.committed.index(5))
        await settle()
        network.deliver()
        network.deliver()
        assert await asking is None

    asyncio.run(main())


def test_without_a_leader_or_a_way_to_it_nobody_waits() -> None:
    async def main() -> None:
        network = Network()
        follower = Raft(network, "n2")
        follower.reachable = False
        assert await follower.committed.index(5) is None
        follower.leader_id = None
        assert await follower.committed.index(5) is None

    asyncio.run(main())


def test_a_leader_that_keeps_silent_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed, "ANSWER_S", 0.0)

    async def main() -> None:
        network = Network()
        leader, follower = Raft(network, "n1"), Raft(network, "n2")
        assert await follower.committed.index(5) is None
        network.under_way.clear()
        assert await follower.committed.index(5) is None
        assert network.questions == 0
        network.clock.forward(6_000)
        leader.quorum_ms = network.clock.boot
        asking = asyncio.create_task(follower.committed.index(5))
        await asyncio.sleep(0)
        assert network.questions == 1
        assert await asking is None

    asyncio.run(main())


def test_an_answer_that_comes_late_is_not_taken_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        network = Network()
        leader, follower = Raft(network, "n1"), Raft(network, "n2")
        leader.commit_index = 7
        with monkeypatch.context() as patched:
            patched.setattr(committed, "ANSWER_S", 0.0)
            assert await follower.committed.index(5) is None
        network.deliver()  # the question, and the answer is on its way now
        assert [kind for _, _, kind, _ in network.under_way] == [ANSWER]
        network.clock.forward(6_000)
        leader.quorum_ms = network.clock.boot
        asking = asyncio.create_task(follower.committed.index(5))
        await settle()
        old, *new = network.under_way
        network.under_way = [old]
        network.deliver()
        await settle()
        assert not asking.done()
        network.under_way = new
        leader.commit_index = 9
        network.deliver()
        network.deliver()
        assert await asking == 9

    asyncio.run(main())
