"""Jobs of PowerJob: every field of JobInfo."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftsched.importers.foreign import Reading
from raftsched.importers.template import Template
from tests.unit.importers.house import read, reasons, said

BASE = {
    "id": 3, "jobName": "report", "jobDescription": "Reports", "appId": 1, "jobParams": '{"day":1}',
    "timeExpressionType": 2, "timeExpression": "0 0 2 * * ?", "executeType": 1, "processorType": 1,
    "processorInfo": "com.acme.ReportProcessor", "maxInstanceNum": 1, "concurrency": 5, "instanceTimeLimit": 60000,
    "instanceRetryNum": 1, "taskRetryNum": 0, "minCpuCores": 0.0, "minMemorySpace": 0.0, "status": 1, "tag": "fin",
    "nextTriggerTime": 1, "lifecycle": "{}", "dispatchStrategy": 1,
}  # fmt: skip
OFFICIAL = "tech.powerjob.official.processors.impl."


def powerjob(**changes: Any) -> Reading:
    answer = {"success": True, "data": [{**BASE, **changes}]}
    return read("powerjob", ("p.json", json.dumps(answer)), template=Template.read("call:{task}"))


def test_a_whole_job() -> None:
    (entry,) = powerjob().entries
    assert (entry.place, entry.name) == ("job 3", "report")
    assert entry.job == {
        "trigger": {"cron": "0 0 2 * * ?", "dialect": "quartz", "timezone": "UTC"},
        "handler": {"call": "com.acme.report-processor"}, "params": {"jobParams": '{"day":1}'}, "overlap": "forbid",
        "timeout": "1m", "retry": {"delays": ["1s"], "on": ["failed", "timed_out"]}, "description": "Reports",
        "labels": {"source": "powerjob:3", "app": "1", "tag": "fin"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes, found",
    [
        ({"timeExpressionType": "API"}, {"trigger": {"manual": True}}),
        ({"timeExpressionType": 3, "timeExpression": "15000"}, {"trigger": {"every": "15s", "mode": "fixed_rate"}}),
        ({"timeExpressionType": "FIXED_DELAY", "timeExpression": "15000"},
         {"trigger": {"every": "15s", "mode": "fixed_delay"}}),
        ({"timeExpressionType": 11, "timeExpression": json.dumps(
            {"interval": 30, "intervalUnit": "MINUTES", "startTimeOfDay": "08:00:00", "endTimeOfDay": "17:30:00",
             "daysOfWeek": [1, 7]})},
         {"trigger": {"cron": "0,30 8-17 * * MON,SUN", "timezone": "UTC"}}),
        ({"lifecycle": '{"start":1893456000000,"end":1924992000000}'},
         {"trigger": {"cron": "0 0 2 * * ?", "dialect": "quartz", "timezone": "UTC",
                      "starts_at": "2030-01-01T00:00:00Z", "ends_at": "2031-01-01T00:00:00Z"}}),
        ({"lifeCycle": {"start": None, "end": None}},
         {"trigger": {"cron": "0 0 2 * * ?", "dialect": "quartz", "timezone": "UTC"}}),
        ({"executeType": "BROADCAST"}, {"placement": {"on": "all"}}),
        ({"maxInstanceNum": 0}, {"overlap": "allow"}),
        ({"maxInstanceNum": 3}, {"overlap": "allow", "max_concurrency": 3}),
        ({"instanceRetryNum": 1, "taskRetryNum": 2}, {"retry": {"delays": ["1s"] * 5, "on": ["failed", "timed_out"]}}),
        ({"status": 2}, {"suspended": True}),
        ({"status": None, "enable": False}, {"suspended": True}),
        ({"processorInfo": f"{OFFICIAL}script.ShellProcessor", "jobParams": "echo hi\r\n"},
         {"handler": {"exec": ["/bin/sh", "-c", "echo hi\n"]}}),
        ({"processorType": 3, "processorInfo": "print(1)"}, {"handler": {"exec": ["python3", "-c", "print(1)"]}}),
        ({"processorInfo": f"{OFFICIAL}HttpProcessor", "jobParams": json.dumps(
            {"url": "example.com/x", "method": "post", "body": "{}", "headers": {"A": "b"}})},
         {"handler": {"http": {"url": "http://example.com/x", "method": "POST", "body": "{}",
                               "headers": {"A": "b", "Content-Type": "application/json"}, "expected_status": [200]}},
          "timeout": "1m"}),
        ({"processorType": "EXTERNAL", "processorInfo": "12#com.acme.X"}, {"handler": {"call": "12.com.acme.x"}}),
    ],
)  # fmt: skip
def test_fields(changes: dict[str, Any], found: dict[str, Any]) -> None:
    reading = powerjob(**changes)
    assert not reading.refused, reading.refused
    assert {key: reading.entries[0].job[key] for key in found} == found


def daily(**changes: Any) -> dict[str, Any]:
    given = {"interval": 60, "startTimeOfDay": "08:00:00", "endTimeOfDay": "10:00:00", **changes}
    return {"timeExpressionType": 11, "timeExpression": json.dumps(given)}


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"timeExpressionType": 5}, "step of a workflow"),
        ({"timeExpressionType": 99}, "are known"),
        ({"timeExpression": "0 2 * * *"}, "has 5 fields"),
        ({"timeExpressionType": 3, "timeExpression": ""}, "number of milliseconds"),
        ({"executeType": 3}, "placement.shards"),
        ({"executeType": "MAP"}, "placement.shards"),
        ({"processorInfo": ""}, "no processorInfo"),
        ({"processorType": 2, "processorInfo": "https://x/y.sh"}, "downloads its script"),
        ({"processorInfo": f"{OFFICIAL}HttpProcessor", "jobParams": "{}"}, "no url"),
        ({"processorInfo": f"{OFFICIAL}HttpProcessor", "jobParams": "x"}, "no JSON object"),
        ({"lifecycle": '{"end":1000}'}, "ended at"),
        ({"lifecycle": "soon"}, "no JSON object"),
        ({"jobName": "报表", "id": None}, "a name here may have"),
        (daily(interval=1, startTimeOfDay="00:00:00"), "more than 1,440"),
        (daily(interval=0), "less than a second"),
        (daily(interval=7, intervalUnit="MINUTES"), "no product"),
        (daily(intervalUnit="FORTNIGHTS"), "are known"),
        (daily(startTimeOfDay="8"), "no time such as"),
        (daily(daysOfWeek=[8]), "not numbers"),
    ],
)
def test_jobs_that_are_refused(changes: dict[str, Any], reason: str) -> None:
    reading = powerjob(**changes)
    assert not reading.entries
    assert reason in reasons(reading)[0]


def test_what_works_differently_is_told() -> None:
    notes = said(powerjob(notifyUserIds="[1]", concurrency=9, designatedWorkers="10.0.0.1", dispatchStrategy="RANDOM",
                          minCpuCores=2, executeType=2, maxWorkerCount=3))  # fmt: skip
    for word in ("notifyUserIds", "concurrency 9", "designatedWorkers 10.0.0.1", "RANDOM", "minCpuCores has",
                 "maxWorkerCount is left out"):  # fmt: skip
        assert word in notes


def test_names_and_what_was_deleted() -> None:
    assert powerjob(jobName="报表").entries[0].name == "powerjob-3"
    assert powerjob(jobName="Daily report").entries[0].name == "daily-report-3"
    assert not powerjob(status=99).entries
    exported = {"success": True, "data": {**BASE, "id": None}}
    assert read("powerjob", ("p.json", json.dumps(exported))).entries[0].name == "report"
