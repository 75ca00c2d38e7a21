"""One barrier for all reads that wait; a read uses none that was proposed before it came."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress

import pytest

from raftsched.core.commands import Barrier, decode
from raftsched.errors import NoLeader, Overloaded, RaftschedError, UnknownOutcome
from raftsched.raft.proposals import barrier
from raftsched.raft.proposals.barrier import Barriers


class Log:
    """Where barriers are proposed; each is answered by hand, in any order."""

    def __init__(self) -> None:
        self.proposed: list[asyncio.Future[None]] = []
        self.timeouts: list[float] = []

    async def propose(self, commands: Sequence[bytes], timeout: float) -> None:
        assert [decode(c) for c in commands] == [Barrier()]
        self.timeouts.append(timeout)
        self.proposed.append(asyncio.get_running_loop().create_future())
        await self.proposed[-1]


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_reads_that_come_together_share_one_barrier_and_later_ones_the_next() -> None:
    async def main() -> None:
        log = Log()
        barriers = Barriers(log.propose)
        first = [asyncio.create_task(barriers.wait(5)) for _ in range(3)]
        await settle()
        assert len(log.proposed) == 1
        later = [asyncio.create_task(barriers.wait(9)) for _ in range(4)]
        await settle()
        assert len(log.proposed) == 1, "one at a time"
        log.proposed[0].set_result(None)
        await settle()
        assert all(t.done() for t in first)
        assert not any(t.done() for t in later), "the first barrier may lie before what they know of"
        assert len(log.proposed) == 2
        log.proposed[1].set_result(None)
        await asyncio.gather(*first, *later)
        await settle()
        assert len(log.proposed) == 2, "nobody waits any more"
        assert log.timeouts[0] <= 5 < log.timeouts[1] <= 9
        again = asyncio.create_task(barriers.wait(5))
        await settle()
        log.proposed[2].set_result(None)
        await again

    asyncio.run(main())


def test_who_gives_up_takes_nobody_along() -> None:
    async def main() -> None:
        log = Log()
        barriers = Barriers(log.propose)
        gone, stays = (asyncio.create_task(barriers.wait(5)) for _ in range(2))
        await settle()
        gone.cancel()
        with suppress(asyncio.CancelledError):
            await gone
        assert not log.proposed[0].done(), "the barrier is not the first one's own"
        late = asyncio.create_task(barriers.wait(5))
        await settle()
        late.cancel()
        log.proposed[0].set_result(None)
        await stays
        await settle()
        assert len(log.proposed) == 1, "for nobody none is proposed"
        last = asyncio.create_task(barriers.wait(5))
        await settle()
        log.proposed[1].set_result(None)
        await last

    asyncio.run(main())


@pytest.mark.parametrize("error", [NoLeader("none"), Overloaded(), ValueError("a bug")])
def test_an_error_goes_to_all_that_wait_and_to_nobody_else(error: Exception) -> None:
    async def main() -> None:
        log = Log()
        barriers = Barriers(log.propose)
        first = [asyncio.create_task(barriers.wait(5)) for _ in range(3)]
        await settle()
        later = asyncio.create_task(barriers.wait(5))
        await settle()
        log.proposed[0].set_exception(error)
        assert await asyncio.gather(*first, return_exceptions=True) == [error] * 3
        await settle()
        log.proposed[1].set_result(None)
        await later

    asyncio.run(main())


def test_a_barrier_that_was_lost_is_proposed_again_but_not_for_ever() -> None:
    async def main() -> None:
        log = Log()
        barriers = Barriers(log.propose)
        reads = [asyncio.create_task(barriers.wait(5)) for _ in range(2)]
        await settle()
        log.proposed[0].set_exception(UnknownOutcome())
        await settle()
        log.proposed[1].set_result(None)
        await asyncio.gather(*reads)
        read = asyncio.create_task(barriers.wait(5))
        for tried in range(2, 2 + barrier.TRIES_MAX):
            await settle()
            log.proposed[tried].set_exception(UnknownOutcome())
        with pytest.raises(NoLeader):
            await read
        assert len(log.proposed) == 2 + barrier.TRIES_MAX

    asyncio.run(main())


def test_a_read_waits_no_longer_than_it_says() -> None:
    async def main() -> None:
        log = Log()
        barriers = Barriers(log.propose)
        patient = asyncio.create_task(barriers.wait(60))
        await settle()
        with pytest.raises(NoLeader):
            await barriers.wait(0.001)
        with pytest.raises(NoLeader):
            await barriers.wait(0.001)
        log.proposed[0].set_result(None)
        await patient

    asyncio.run(main())


def test_too_many_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        monkeypatch.setattr(barrier, "WAITING_MAX", 2)
        log = Log()
        barriers = Barriers(log.propose)
        reads = [asyncio.create_task(barriers.wait(5)) for _ in range(3)]
        await settle()
        assert sum(isinstance(t.exception(), Overloaded) for t in reads if t.done()) == 1
        log.proposed[0].set_result(None)
        await asyncio.gather(*reads, return_exceptions=True)

    asyncio.run(main())


def test_no_wake_up_is_lost_whatever_the_order() -> None:
    """Reads come, give up and fail at random; each that stays is answered by a barrier proposed after it came."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)

    async def main() -> None:
        log = Log()
        barriers = Barriers(log.propose)
        reads: list[tuple[asyncio.Task[None], int]] = []  # (read, barriers proposed when it came)
        for _ in range(300):
            match rng.randrange(4):
                case 0 | 1:
                    reads.append((asyncio.create_task(barriers.wait(60)), len(log.proposed)))
                case 2 if reads:
                    rng.choice(reads)[0].cancel()
                case 3:
                    for proposed in log.proposed:
                        if not proposed.done():
                            proposed.set_result(None)
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            answered = sum(p.done() for p in log.proposed)
            for read, came in reads:
                if read.done() and not read.cancelled():
                    assert answered > came, "a barrier from before the read"
        for _ in range(3):
            await settle()
            for proposed in log.proposed:
                if not proposed.done():
                    proposed.set_result(None)
        await settle()
        for read, _ in reads:
            assert read.done()
            assert read.cancelled() or read.exception() is None

    try:
        asyncio.run(main())
    except RaftschedError as error:
        raise AssertionError(error) from error
