"""The spans of fires, as a leader records them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from raftsched.core import commands as c
from raftsched.core.actions import AttemptAssigned
from raftsched.core.commands import Assign, Fire
from raftsched.core.ids import instance_key, instance_text
from raftsched.core.model import Outcome, Retry
from raftsched.leader.due import fire_traces
from raftsched.leader.due.fire_traces import FireTraces
from tests.support.memory_view import T0, after
from tests.support.traces import Kept, attributes, ids, parent
from tests.unit.leader.house import House, play


def led(kept: Kept, scene: Callable[[House], Coroutine[Any, Any, None]]) -> House:
    """Plays a scene with a leader whose fires are recorded."""
    houses: list[House] = []

    async def with_house(house: House) -> None:
        houses.append(house)
        kept.tracer._clock = house.clock
        await scene(house)

    return play(with_house, fire_traces=FireTraces(kept.tracer, lambda: houses[0].read()))  # noqa: PLW0108 (there is none yet)


def key_of(house: House, job: int) -> bytes:
    (fire,) = [command for command in house.commands(Fire) if command.job_id == job]
    return instance_key(fire.nominal_at_ms, job)


def test_from_when_it_is_due_until_it_is_given_away() -> None:
    kept = Kept()
    made: list[int] = []

    async def scene(house: House) -> None:
        session = house.session()
        made.append(house.create(after(1_000)))
        house.lead()
        house.beat(session)
        house.clock.forward(1_030)
        house.beat(session)
        await house.until_idle()

    house = led(kept, scene)
    key = key_of(house, made[0])
    entry, fire = kept.spans
    context = kept.tracer.fire_context(key)
    assert ids(fire) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")
    assert parent(fire) == ""
    assert attributes(fire)["raftsched.instance.id"] == instance_text(key)
    assert attributes(fire)["raftsched.late_ms"] == 30
    assert attributes(fire)["raftsched.worker"] == "n2"
    assert (entry.name, parent(entry)) == ("log entry", ids(fire)[1])
    assert attributes(entry) == {"raftsched.log.commands": 2}  # the fire, and its assignment


def test_what_waits_for_a_worker_waits_in_its_span() -> None:
    kept = Kept()

    async def scene(house: House) -> None:
        house.create(after(1_000))
        house.lead()
        house.clock.forward(1_000)
        await house.until_idle()
        assert kept.spans == ()
        house.clock.forward(500)
        session = house.session()
        house.beat(session)
        await house.until_idle()

    led(kept, scene)
    entry, fire = kept.spans
    times = [(span.start_time or 0, span.end_time or 0) for span in (entry, fire)]
    assert times[0][0] == times[1][0]
    assert times[0][1] < times[1][1], "the fire was in the log before it was given away"


def test_a_retry_is_no_second_fire() -> None:
    kept = Kept()

    async def scene(house: House) -> None:
        session = house.session()
        job = house.create(after(1_000), retry=Retry((1_000, 1_000)))
        house.lead()
        house.beat(session)
        house.clock.forward(1_000)
        house.beat(session)
        await house.until_idle()
        house.do(c.Ended(session, 1, Outcome.FAILED, house.clock.wall, house.clock.wall, exit_code=1))
        house.clock.forward(5_000)
        house.beat(session)
        await house.until_idle()
        assert len(house.commands(Assign)) == 2, house.proposed
        assert house.commands(Fire)[0].job_id == job

    led(kept, scene)
    assert kept.names == ["log entry", "fire"]


def test_runs_that_were_asked_for_have_a_span_too() -> None:
    """And so has what another leader fired: this one knows from the row since when it is there."""
    kept = Kept()

    async def scene(house: House) -> None:
        job = house.create(after(3_600_000))
        house.do(c.RunNow(job, 9))
        house.clock.forward(700)
        session = house.session()
        house.lead()
        house.beat(session)
        await house.until_idle()

    led(kept, scene)
    (fire,) = kept.spans
    assert (fire.start_time, fire.end_time) == (T0 * 1_000_000, (T0 + 700) * 1_000_000)


def test_what_is_not_sampled_costs_no_row() -> None:
    kept = Kept(sampler=ParentBased(ALWAYS_OFF))
    traces = FireTraces(kept.tracer, lambda: pytest.fail("a row was read"))  # type: ignore[arg-type]
    traces.proposed([Fire(7, 1, 1_000)])
    traces.applied([AttemptAssigned("n1", 1, 1, instance_key(1_000, 7))])
    assert kept.spans == ()


def test_what_waits_is_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fire_traces, "SEEN_MAX", 3)
    traces = FireTraces(Kept().tracer, lambda: pytest.fail("a row was read"))  # type: ignore[arg-type]
    traces.proposed([Fire(job, 1, 1_000) for job in range(10)])
    assert list(traces._seen) == [instance_key(1_000, job) for job in (7, 8, 9)]
    traces.forget()
    assert not traces._seen
