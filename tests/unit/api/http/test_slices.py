"""Slices of time: others have their turn once one is over, one piece of all such work in each turn."""

import asyncio

import pytest

from raftsched.api.http import slices
from raftsched.api.http.slices import SLICE_S, Slices


class Processor:
    """Processor time that only the tests spend."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_s = 0.0
        monkeypatch.setattr(slices, "thread_s", lambda: self.at_s)

    def works(self, seconds: float) -> None:
        self.at_s += seconds


def test_others_have_their_turn_when_a_slice_is_over_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Processor(monkeypatch)
    seen: list[str] = []

    async def main() -> None:
        one = Slices()
        asyncio.get_running_loop().call_soon(seen.append, "another")
        processor.works(SLICE_S / 2)
        assert not one.over
        await one.turn()
        assert seen == []
        processor.works(SLICE_S / 2)
        assert one.over
        await one.turn()
        assert seen == ["another"]
        assert not one.over  # the next slice has begun

    asyncio.run(main())


def test_what_others_did_meanwhile_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Processor(monkeypatch)

    async def main() -> None:
        one = Slices()
        processor.works(SLICE_S)
        asyncio.get_running_loop().call_soon(processor.works, 1.0)
        await one.turn()
        assert not one.over

    asyncio.run(main())


def test_one_piece_goes_through_in_each_iteration_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Processor(monkeypatch)
    turn = 0
    turns: list[int] = []

    async def tick() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def work() -> None:
        own = Slices()
        for _ in range(5):
            turns.append(turn)
            processor.works(SLICE_S)
            await own.turn()

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        await asyncio.gather(*(work() for _ in range(8)))
        ticking.cancel()

    asyncio.run(main())
    later = [at for at in turns if at > turns[0]]  # the first pieces of requests that come together are together
    assert len(later) == len(set(later)) == 32
