"""What jobs are like that an Author writes down: all kinds of triggers and policies, also impossible ones."""

from __future__ import annotations

import random

import msgspec

from raftsched.bounds import DAY_MS
from raftsched.core.commands import CreateJob, CreateJobs
from raftsched.core.limits import policy_error
from raftsched.core.model import (
    After,
    AfterOn,
    Condition,
    ConditionKind,
    Delivery,
    EveryMode,
    Mapped,
    Misfire,
    MisfirePolicy,
    Outcome,
    Outcomes,
    Overlap,
    Policy,
    Retention,
    Retry,
    Trigger,
    TriggerKind,
    Verdict,
)
from raftsched.core.rules.run_keys import Concurrency
from raftsched.core.subjects.notices import ENDS, OF_CLUSTER, Event, Notify
from tests.support.memory_view import T0

QUEUES = ("q", "r", "s")
HOOKS = ("h", "i", "j")
CALENDARS = ("holidays", "closed")


def trigger(r: random.Random, now: int) -> Trigger:
    calendar = r.choice([None, None, None, *CALENDARS])
    near = now + r.choice([-DAY_MS, -1, 0, 1, 1_000, 30_000])
    if r.random() < 0.2:
        kind = r.choice([TriggerKind.AFTER] * 9 + [TriggerKind.MANUAL])
        return Trigger(kind=kind, max_runs=r.choice([None, None, 1, 3]), after=after(r))
    return Trigger(
        kind=r.choice(list(TriggerKind)),
        at_ms=r.choice([T0, T0 + 5, max(0, near)]),
        period_ms=r.choice([1_000, 1_000, 60_000, 7, 0]),
        mode=r.choice(list(EveryMode)),
        jitter_ms=r.choice([0, 0, 500, 100_000]),
        starts_at_ms=r.choice([None, None, T0, near]),
        ends_at_ms=r.choice([None, None, None, near, near + 60_000]),
        max_runs=r.choice([None, None, 1, 2, 3]),
        calendar=calendar,
        calendar_moves=calendar is not None and r.random() < 0.5,
    )


def several(r: random.Random, now: int) -> tuple[Trigger, ...]:
    """Returns several triggers, mostly such as may stand beside others."""
    found = [
        msgspec.structs.replace(trigger(r, now), id=name, max_runs=r.choice([None] * 30 + [1]))
        for name in r.sample(["a", "b", "c", "d"], r.choice([1, 2, 2, 3, 4]))
    ]
    return tuple(one for one in found if one.kind not in (TriggerKind.MANUAL, TriggerKind.SEVERAL) or r.random() < 0.01)


def after(r: random.Random) -> After:
    """Returns jobs to follow by the few names that there are, so that they often meet, also in circles."""
    names = r.sample(("d/a", "d/b", "default/a", "default/b", "d/e", "a"), r.choice([1, 1, 2, 2, 3]))
    return After(tuple(names), r.choice(list(AfterOn)), r.random() < 0.3, r.random() < 0.3)


def policy(r: random.Random, now: int) -> Policy:
    """Returns mostly one that is possible: jobs of which nearly all were refused would show little."""
    found = _any_policy(r, now)
    while policy_error(found) is not None and r.random() < 0.95:
        found = _any_policy(r, now)
    return found


def _any_policy(r: random.Random, now: int) -> Policy:
    triggers = several(r, now) if r.random() < 0.25 else ()
    one = Trigger(kind=TriggerKind.SEVERAL, max_runs=r.choice([None, None, 1, 3])) if triggers else trigger(r, now)
    return Policy(
        trigger=one,
        triggers=triggers,
        priority=r.choice([0, 5, 5, 9]),
        queue=r.choice(["default", *QUEUES, "x" * 129]),
        delivery=r.choice([Delivery.AT_LEAST_ONCE, Delivery.AT_LEAST_ONCE, Delivery.AT_MOST_ONCE]),
        max_lost=r.choice([0, 1, 3]),
        suspend_after=r.choice([None, None, 1, 2]),
        retry=r.choice([Retry(), Retry((0,)), Retry((1_000, 5_000)), Retry((1,), (Outcome.TIMED_OUT,))]),
        overlap=r.choice(list(Overlap)),
        max_concurrency=r.choice([0, 0, 0, 1, 2, 3, -1]),
        misfire=Misfire(r.choice(list(MisfirePolicy)), r.choice([0, 1_000, 900_000])),
        conditions=r.choice([(), (), (), conditions(r)]),
        conditions_timeout_ms=r.choice([1, 5_000, DAY_MS]),
        notify=r.choice([(), (), (), notify(r)]),
        retention=r.choice([Retention(), Retention(1, 1), Retention(0, 0), Retention(3, 2, 10_000)]),
        shards=(shards := r.choice([0, 0, 0, 1, 3, 60, 1_001])),
        on_all=not shards and r.random() < 0.2,
        outcomes=r.choice([None, None, None, outcomes(r)]),
        expires_ms=r.choice([0, 0, 0, 1, 5_000, DAY_MS, -1]),
        concurrency=r.choice([None, None, concurrency(r)]),
    )


def outcomes(r: random.Random) -> Outcomes:
    def some(codes: list[int]) -> tuple[Mapped, ...]:
        chosen = r.sample(codes, r.randint(0, 2))
        return tuple(
            Mapped(code, code + r.choice([0, 0, 9]), r.choice(list(Verdict)), r.choice([0, 5_000])) for code in chosen
        )

    return Outcomes(some([0, 3, 75, 255]), some([200, 404]))


def concurrency(r: random.Random) -> Concurrency:
    """Few keys, so that runs meet."""
    template, value = r.choice([("k", "k"), ("{params.t}", "k"), ("{params.t}", "l"), ("{job}", "\0"), ("}", "k")])
    count, period_ms = r.choice([(None, 0), (None, 0), (1, 1_000), (2, 60_000), (3, 5)])
    return Concurrency(template, value, r.choice([0, 1, 1, 2, -1]), count, period_ms)


def conditions(r: random.Random) -> tuple[Condition, ...]:
    known = (
        Condition(ConditionKind.PATH, "/data/*.csv"),
        Condition(ConditionKind.HTTP, "http://h/", status=204),
        Condition(ConditionKind.JOB, "d/a", within_ms=r.choice([1, 60_000, DAY_MS])),
        Condition(ConditionKind.JOB, "d/b", within_ms=60_000),
    )
    return tuple(r.sample(known, r.randint(1, 3)))


def notify(r: random.Random) -> tuple[Notify, ...]:
    return tuple(
        Notify(
            r.choice([*HOOKS, *HOOKS, "none"]),
            tuple(sorted(r.sample(list(Event), r.choice([0, 2, 4, 7, 11])))),
            late_ms=r.choice([0, 1, 5_000]),
            longer_ms=r.choice([0, 1, 5_000]),
            p95_percent=r.choice([0, 0, 150]),
            not_run_ms=r.choice([0, 1_000, DAY_MS]),
        )
        for _ in range(r.choice([1, 1, 2]))
    )


def listened_to(r: random.Random) -> tuple[Event, ...]:
    """What a webhook asks for by itself."""
    return tuple(sorted(r.sample(sorted({*ENDS, *OF_CLUSTER, Event.STARTED}), r.choice([0, 2, 4, 12]))))


def body(r: random.Random) -> bytes:
    return r.choice(
        [
            b"",
            b"{}",
            b"{}",
            b'{"owner":"ana"}',
            b'{"labels":{"a":"1","b":"2"}}',
            b'{"owner":"bo","labels":{"a":"2"}}',
            b'{"owner":7}',
            b'{"handler":{"env":{"A":{"$secret":"pw"}}},"params":{"b":[{"$secret":"d/other"}]}}',
            b'{"handler":{"http":{"body":{"$secret":"pw"},"headers":{"X":{"$secret":"d/pw"}}}}}',
            b'{"handler":{"env":{"$secret":"pw","B":{"$secret":7}}},"params":[{"$secret":{}}]}',
        ]
    )


def alike(one: CreateJob, r: random.Random, now: int) -> CreateJobs:
    """Returns some jobs that are like this one."""
    count = r.choice([0, 1, 2, 3, 6])
    times = [now + r.choice([0, 1, 30_000, DAY_MS]) for _ in range(count - 1)]
    names = r.choice([("a", "b", "e", None), ("f", "g", "x" * 600), ("i", "j", "k", "l", "m", "")])
    places = r.sample([0, 1, 2, 3, 4, 5, 6, 511, 512, -1], count)
    return CreateJobs(
        one.namespace,
        one.policy,
        tuple(r.choice([one.body, body(r)]) for _ in range(count)),
        (*times, r.choice([now, now, -1, 2**62]))[-count:] if count and r.random() < 0.6 else (),
        tuple(r.choice(names) for _ in range(count)) if r.random() < 0.4 else (),
        one.suspended,
        one.key,
        one.digest,
        tuple(places) if one.key else (),
        one.defaults,
    )
