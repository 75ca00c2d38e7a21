"""What is exported is what is there: comparing it finds nothing, applying it changes nothing, and another cluster that
was given it exports the same."""

from __future__ import annotations

import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from raftsched.cli.jobs.export import portable
from raftsched.cli.jobs.generated import UNSAID
from raftsched.core.model import TriggerKind
from raftsched.importers.documents import read_jobs
from raftsched.importers.yaml_text import yaml_text
from tests.support.job_bodies import NAMED, body
from tests.support.local_api import Client, run

HANDLER = {"shell": "true"}
FIRST = [
    {"name": "first", "trigger": {"manual": True}, "handler": HANDLER},
    {"name": "second", "namespace": "billing", "trigger": {"manual": True}, "handler": HANDLER},
]
JOBS = 60


async def prepare(call: Client) -> None:
    for path, value in NAMED.items():
        assert (await call("PUT", path, value))[0] in (200, 201), path
    for job in FIRST:
        assert (await call("POST", "/v1/jobs", job))[0] == 201


async def exported(call: Client, *, full: bool = False) -> list[dict[str, Any]]:
    """Returns the jobs that a file has which `raftsched jobs export` wrote."""
    found = []
    says = {}
    for namespace in ("default", "billing"):
        status, answer = await call("GET", f"/v1/namespaces/{namespace}")
        says[namespace] = frozenset(answer.get("defaults") or ()) if status == 200 else frozenset()
    _, page = await call("GET", "/v1/jobs?limit=1000")
    for job in page["items"]:
        if job["state"] != "EXPIRED":
            said = UNSAID if full else says[job["namespace"]]
            text = "---\n" + yaml_text(portable(job, full=full, says=said))
            found += [document.value for document in read_jobs(text.encode(), "jobs.yaml")]
    return found


async def differences(call: Client, file: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Returns what `raftsched jobs diff` and `raftsched jobs apply` say of the file, but for what stays as it is."""
    _, answer = await call("POST", "/v1/jobs:compare?consistency=leader", file)
    found: list[tuple[Any, Any]] = []
    for job, one in zip(file, answer["items"], strict=True):
        namespace = job.get("namespace", "default")
        _, alone = await call("POST", f"/v1/namespaces/{namespace}/jobs/{job['name']}/compare", job)
        if (one["result"], alone.get("result")) != ("unchanged", "unchanged"):
            found.append((one, alone))
    return found


def test_what_is_exported_does_not_differ_from_what_is_there(tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    r = random.Random(seed)
    files: list[list[dict[str, Any]]] = []

    async def make(call: Client) -> None:
        await prepare(call)
        made = 0
        for number in range(JOBS):
            made += (await call("POST", "/v1/jobs", body(r, f"j{number}")))[0] == 201
        assert made > JOBS / 3
        file = await exported(call)
        assert await differences(call, file) == []
        assert await exported(call) == file
        files.append(file)

    async def take_over(call: Client) -> None:
        await prepare(call)
        (file,) = files
        for job in file:
            path = f"/v1/namespaces/{job.get('namespace', 'default')}/jobs/{job['name']}"
            status, answer = await call("PUT", path, job)
            assert status in (200, 201), answer
        assert await exported(call) == file
        assert await differences(call, file) == []

    run(tmp_path / "one", make)
    run(tmp_path / "other", take_over)


TRIGGERS: list[dict[str, Any]] = [
    {"at": "2040-01-01T00:00:00Z"},
    {"in": "1d"},
    {"in": "1d", "jitter": "5m"},
    {"every": "1h"},
    {"every": "1h", "mode": "fixed_delay"},
    {"cron": "0 5 * * *", "timezone": "Europe/Madrid"},
    {"cron": "H H * * *"},
    {"rrule": "FREQ=DAILY"},
    {"manual": True},
    {"after": {"job": "default/first"}},
]


def test_the_kinds_are_all_there_are() -> None:
    assert {next(iter(trigger)) for trigger in TRIGGERS} == {kind.name.lower() for kind in TriggerKind} - {"several"}


@pytest.mark.parametrize("paused", [False, True])
async def test_every_kind_of_trigger(call: Client, paused: bool) -> None:
    await prepare(call)
    for number, trigger in enumerate(TRIGGERS):
        for namespace in ("default", "billing"):
            job = {"name": f"a{number}", "namespace": namespace, "trigger": trigger, "handler": HANDLER}
            assert (await call("POST", "/v1/jobs", {**job, "suspended": paused}))[0] == 201
    file = await exported(call)
    assert len(file) == 2 * len(TRIGGERS) + len(FIRST)
    assert await differences(call, file) == []


async def test_a_time_that_was_counted_from_the_creation_is_shown_as_that_time(call: Client) -> None:
    path = "/v1/namespaces/default/jobs/once"
    _, made = await call("PUT", path, {"trigger": {"in": "1d"}, "handler": HANDLER, "priority": 2})
    said = {"trigger": {"at": made["next_fire_at"]}, "handler": HANDLER}
    _, found = await call("POST", f"{path}/compare", {**said, "priority": 3})
    assert (found["result"], found["before"]["trigger"]) == ("changed", said["trigger"])
    _, found = await call("POST", f"{path}/compare", {**said, "priority": 2, "labels": {}})
    assert (found["result"], found["before"]) == ("unchanged", found["after"])
    for other in ({"at": "2040-01-01T00:00:00Z"}, {"in": "2d"}, {**said["trigger"], "jitter": "5s"}):
        _, found = await call("POST", f"{path}/compare", {**said, "priority": 2, "trigger": other})
        assert (found["result"], found["before"]["trigger"]) == ("changed", {"in": "1d"})


@pytest.mark.parametrize("full", [False, True])
async def test_a_zone_that_the_namespace_has_another_default_of_by_now(call: Client, full: bool) -> None:
    """A job that says no zone counts in UTC, which the file says."""
    several = [{"id": "a", "cron": "0 5 * * *"}, {"id": "b", "every": "1h"}, {"id": "c", "rrule": "FREQ=DAILY"}]
    for when in ({"trigger": {"cron": "0 5 * * *"}}, {"trigger": {"rrule": "FREQ=DAILY"}}, {"triggers": several}):
        job = {"name": f"a{len(str(when))}", "handler": HANDLER, **when}
        assert (await call("POST", "/v1/jobs", job))[0] == 201
    if not full:
        defaults = {"defaults": {"timezone": "Europe/Madrid"}}
        assert (await call("PUT", "/v1/namespaces/default", defaults))[0] == 201
    file = await exported(call, full=full)
    assert [str(job).count("'UTC'") for job in file] == [1, 1, 2]
    assert await differences(call, file) == []
    file[0]["trigger"]["timezone"] = "Europe/Lisbon"
    file[1]["priority"] = 6
    (one, two) = await differences(call, file)
    assert (one[0]["result"], one[1]["before"]["trigger"].get("timezone")) == ("changed", None)
    assert ("priority" in two[1]["before"], two[1]["before"]["trigger"]) == (False, file[1]["trigger"])
