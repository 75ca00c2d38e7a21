"""Jobs that are like earlier ones of their request are read as if each came alone."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from raftsched.api.http.idempotency import UNNAMED, Named
from raftsched.api.http.problems import Problem, body_of
from raftsched.api.jobs import alike
from raftsched.api.jobs.alike import AlikeJobs
from raftsched.api.jobs.defaults import NO_DEFAULTS, NamespaceDefaults
from raftsched.api.jobs.joined import Group
from raftsched.api.jobs.parse import Content, create_command, read_job
from raftsched.cluster_settings import Settings
from raftsched.core.commands import CreateJob, CreateJobs, decode
from raftsched.surface.jobs_generated import DefaultsIn
from tests.support.job_bodies import body, trigger

NOW_MS = 1_893_456_000_000  # 2030-01-01T00:00:00Z
SETTINGS = Settings(body_max_bytes=3_000, params_max_bytes=1_000)
JOB: dict[str, Any] = {"trigger": {"at": "2040-01-01T00:00:00Z"}, "handler": {"python": "m:f"}}


def lookup(namespace: str) -> NamespaceDefaults:
    return NamespaceDefaults(7, DefaultsIn(priority=3)) if namespace == "billing" else NO_DEFAULTS


def told(read: Callable[[], Content]) -> object:
    """Returns what a job is read as, or how it is refused."""
    try:
        content = read()
    except Problem as problem:
        return body_of(problem)
    return decode(create_command(content)), content.has_own_notify


def read(jobs: AlikeJobs, raw: bytes) -> Content:
    return jobs.read(raw, SETTINGS, NOW_MS, lookup)


def like(r: random.Random, given: dict[str, Any]) -> bytes:
    """Returns the text of a job that is like another one, or nearly so."""
    params = [None, 5, {}, {"a": 1}, {"a": {"b": ["é", {"$secret": "pw"}]}}, {"x": "y" * 1_200}, {"{{": "}}"}]
    changes: list[Callable[[dict[str, Any]], Any]] = [
        lambda one: one.update(trigger=trigger(r)),
        lambda one: one.update(trigger=trigger(r)),
        lambda one: one.update(trigger={"at": f"2040-01-01T00:00:{r.randrange(70):02d}Z"}),
        lambda one: one.update(trigger=r.choice([None, {}, 3, {"at": 3}, {"at": "x"}, {"in": "1h", "every": "1h"}])),
        lambda one: one.update(params=r.choice(params)),
        lambda one: one.update(name=r.choice(["a", "b-1", "B ad", None, 3, ""])),
        lambda one: one.update(suspended=True),
        lambda one: one.update(priority=r.choice([1, 5, 11])),
        lambda one: one.pop(r.choice(list(one)), None),
        lambda one: one.update(unknown=1),
    ]
    one = dict(given)
    for change in r.choices(changes, k=r.choice([0, 1, 1, 2])):
        change(one)
    text = json.dumps(one, separators=r.choice([None, (",", ":")]), ensure_ascii=r.random() < 0.5)
    if r.random() < 0.2:
        at = r.choice([place for place, mark in enumerate(text) if mark == "{"])
        said = r.choice(
            ['"at":"2040-01-01T00:00:09Z"', '"a":1', '"name":"c"', '"trigger":{"in":"1h"}', '"b":"\\u0000"']
        )
        text = text[: at + 1] + said + ("" if text[at + 1] == "}" else ",") + text[at + 1 :]
    return text.encode()


@pytest.mark.parametrize("seed", range(60))
def test_each_is_read_as_it_would_be_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    r = random.Random(seed)
    monkeypatch.setattr(alike, "SHAPES_MAX", r.choice([1, 2, 64]))
    models = [
        *(JOB, {**JOB, "labels": {"a": "b"}}, {**JOB, "namespace": "billing"}, *(body(r, "b") for _ in range(3))),
        {**JOB, "concurrency": {"key": "{params.a}", "max": 1}},
        {**JOB, "misfire": {"policy": "skip"}},
        {**JOB, "retry": {"delays": ["1s"]}},
        {**JOB, "handler": {"exec": ["echo", "{params.a}"], "template": True}},
    ]
    jobs = AlikeJobs()
    for raw in [like(r, r.choice(models)) for _ in range(120)]:
        alone = told(lambda raw=raw: read_job(raw, SETTINGS, NOW_MS, lookup))
        assert told(lambda raw=raw: read(jobs, raw)) == alone, raw


def test_what_is_alike_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bytes] = []

    def noted(raw: bytes, *more: Any) -> Content:
        looks.append(raw)
        return read_job(raw, *more)

    monkeypatch.setattr(alike, "read_job", noted)
    jobs = AlikeJobs()
    given = [{**JOB, "params": {"n": n}, "name": f"n{n}", "trigger": {"in": f"{n + 1}m"}} for n in range(50)]
    assert len({read(jobs, json.dumps(one).encode()).shape for one in given}) == 1
    assert len(looks) == 1


def test_jobs_that_are_all_different_are_not_compared_for_long() -> None:
    jobs = AlikeJobs()
    shapes = [read(jobs, json.dumps({**JOB, "owner": f"o{n}"}).encode()).shape for n in range(40)]
    assert [shape is not None for shape in shapes] == [True] * alike.USELESS + [False] * (40 - alike.USELESS)


def commands_of(given: list[dict[str, Any]], name: Named = UNNAMED) -> list[Any]:
    jobs = AlikeJobs()
    groups: list[Group] = []
    for place, one in enumerate(given):
        content = read(jobs, json.dumps(one).encode())
        if not (groups and groups[-1].takes(content, name.key, place)):
            groups.append(Group(content, *name, place))
    return [decode(group.command()) for group in groups]


def test_jobs_next_to_each_other_that_are_alike_are_one_command() -> None:
    timed = [{**JOB, "trigger": {"at": f"2040-01-01T00:0{n}:00Z"}} for n in range(3)]
    other = {**JOB, "owner": "o"}
    every = [{**JOB, "trigger": {"every": span}} for span in ("1m", "1m", "2m")]
    found = commands_of([*timed, other, *every])
    assert [type(one) for one in found] == [CreateJobs, CreateJob, CreateJobs, CreateJob]
    assert (len(found[0].bodies), found[0].times) == (3, tuple(2_208_988_800_000 + n * 60_000 for n in range(3)))
    assert (len(found[2].bodies), found[2].times, found[2].names, found[2].places) == (2, (), (), ())


@pytest.mark.parametrize("name", [UNNAMED, Named(b"k" * 32, b"d" * 32)])
def test_the_command_makes_each_job_as_its_own_would(name: Named) -> None:
    given = [
        {**JOB, "trigger": {"at": f"2040-01-01T00:0{n}:00Z"}, "name": f"n{n}", "suspended": True} for n in range(3)
    ]
    (found,) = commands_of(given, name)
    for place, one in enumerate(given):
        content = read_job(json.dumps(one).encode(), SETTINGS, NOW_MS, lookup)
        alone = create_command(content, key=name.key, digest=name.digest, place=place if name.key else None)
        assert found.one(place) == decode(alone)
