"""When a job is due, as options of `jobs create` say it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import JOB, run

WEEKDAYS = {"id": "weekdays", "cron": "0 7 * * MON-FRI"}


def created(*options: str) -> dict[str, Any]:
    with serve(lambda request: (201, JOB)) as stub:
        result = run("--server", stub.url, "jobs", "create", "tick", *options, "--shell", "true")
        assert result.exit_code == 0, result.output
        job: dict[str, Any] = json.loads(stub.requests[0].body)
    return {name: value for name, value in job.items() if name in ("trigger", "triggers", "max_runs")}


@pytest.mark.parametrize(
    "options, fields",
    [
        (["--cron", "0 7 * * *", "-z", "Europe/Madrid", "--calendar", "c", "--max-runs", "3"],
         {"trigger": {"cron": "0 7 * * *", "timezone": "Europe/Madrid", "calendar": "c", "max_runs": 3}}),
        (["--rrule", "FREQ=DAILY;COUNT=3"], {"trigger": {"rrule": "FREQ=DAILY;COUNT=3"}}),
        (["--in", "5m"], {"trigger": {"in": "5m"}}),
        (["--cron", "weekdays=0 7 * * MON-FRI", "--at", "closing=2030-12-31T18:00:00Z", "--max-runs", "500"],
         {"triggers": [WEEKDAYS, {"id": "closing", "at": "2030-12-31T18:00:00Z"}], "max_runs": 500}),
        (["--cron", "a=@daily", "--cron", "b=@hourly", "--in", "c=5m", "--rrule", "d=freq=daily", "-z", "Asia/Tokyo"],
         {"triggers": [{"id": "a", "cron": "@daily", "timezone": "Asia/Tokyo"},
                       {"id": "b", "cron": "@hourly", "timezone": "Asia/Tokyo"},
                       {"id": "d", "rrule": "freq=daily", "timezone": "Asia/Tokyo"}, {"id": "c", "in": "5m"}]}),
        (["--every", "a=5m", "--at", "b=2030-12-31T18:00:00Z", "--calendar", "c"],
         {"triggers": [{"id": "a", "every": "5m", "calendar": "c"}, {"id": "b", "at": "2030-12-31T18:00:00Z"}]}),
        (["--cron", "weekdays=0 7 * * MON-FRI"], {"triggers": [WEEKDAYS]}),
        (["--after", "load", "--max-runs", "2"], {"trigger": {"after": {"job": "load"}, "max_runs": 2}}),
    ],
)  # fmt: skip
def test_one_trigger_or_several(options: list[str], fields: dict[str, Any]) -> None:
    assert created(*options) == fields


@pytest.mark.parametrize(
    "options, said",
    [
        (["--cron", "0 7 * * *", "--in", "5m"], "each of 2 times needs an id; write --cron nightly='0 7 * * *'"),
        (["--rrule", "FREQ=DAILY", "--in", "a=5m"], "write --rrule nightly='FREQ=DAILY'"),
        (["--cron", "Bad Id=0 7 * * *"], "'Bad Id' is not a trigger's id"),
        (["--in", "a=5m", "--at", "b=2030-12-31T18:00:00Z", "-z", "UTC"], "--timezone goes with --cron, --rrule"),
        (["--in", "a=5m", "--in", "b=5m", "--calendar", "c"], "--calendar goes with --cron, --rrule, --every"),
        (["--in", "a=5m", "--in", "b=5m", "--calendar-action", "move"], "--calendar-action goes with --cron, --rrule"),
        (["--cron", "a=0 7 * * *", "--in", "b=5m", "--manual"], "exclude each other"),
        (["--max-runs", "0", "--in", "5m"], "--max-runs"),
        ([], "Say when the job is due: one of --cron"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: list[str], said: str) -> None:
    result = run("jobs", "create", "tick", *options, "--shell", "true")
    assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
