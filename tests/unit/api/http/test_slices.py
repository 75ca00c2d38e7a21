"""Slices of time: others have their turn once one is over, one piece of all such work in each turn."""

import asyncio
from collections import Counter

import pytest

from raftsched.api.auth.callers import Caller, RequestContext, enter_request
from raftsched.api.http import slices
from raftsched.api.http.slices import SLICE_S, Slices
from raftsched.core.subjects.access import Role


class Processor:
    """Processor time that only the tests spend."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at_s = 0.0
        self.waited_s = 0.0
        self.looks = 0  # at the processor time
        monkeypatch.setattr(slices, "thread_s", self._thread_s)
        monkeypatch.setattr(slices, "passed_s", lambda: self.at_s + self.waited_s)

    def _thread_s(self) -> float:
        self.looks += 1
        return self.at_s

    def works(self, seconds: float) -> None:
        self.at_s += seconds

    def waits(self, seconds: float) -> None:
        self.waited_s += seconds


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


def test_processor_time_is_looked_at_only_where_the_slice_can_be_over(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Processor(monkeypatch)

    async def main() -> None:
        one = Slices()
        assert not one.over
        before = processor.looks
        for _ in range(100):
            processor.works(SLICE_S / 200)
            assert not one.over
        assert processor.looks == before
        processor.waits(SLICE_S)
        assert not one.over, "the time that the thread did not have is not counted"
        assert processor.looks == before + 1
        processor.works(SLICE_S / 2)
        assert one.over

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


def test_all_requests_share_one_slice_in_each_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Processor(monkeypatch)
    step_s, requests = SLICE_S / 8, 8
    turn = 0
    spent: Counter[int] = Counter()  # steps by iteration

    async def tick() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def work() -> None:
        own = Slices()
        for _ in range(40):
            spent[turn] += 1
            processor.works(step_s)
            await own.turn()

    async def main() -> None:
        ticking = asyncio.create_task(tick())
        await asyncio.gather(*(work() for _ in range(requests)))
        ticking.cancel()

    asyncio.run(main())
    assert sum(spent.values()) == 40 * requests
    assert max(spent.values()) <= 8 + requests, "a slice, and where it is over one step of each that comes"
    assert sorted(spent.values())[-2] <= 8 + 1


def test_requests_that_come_together_share_the_slice_of_that_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Processor(monkeypatch)

    async def main() -> None:
        first = Slices()
        processor.works(SLICE_S)
        others = [Slices() for _ in range(50)]
        assert first.over
        assert all(other.over for other in others), "they wait before they have done anything"

    asyncio.run(main())


def test_callers_are_served_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = Processor(monkeypatch)
    done: list[str] = []

    async def work(name: str) -> None:
        enter_request(RequestContext(Caller(Role.VIEWER, name=name), "jobs_list_all"))
        own = Slices()
        processor.works(SLICE_S)
        await own.turn()
        done.append(name)

    async def main() -> None:
        many = [asyncio.create_task(work("many")) for _ in range(100)]
        await asyncio.gather(asyncio.create_task(work("one")), *many)

    asyncio.run(main())
    assert done.index("one") <= 2, "behind one request of the other caller, not behind a hundred"
