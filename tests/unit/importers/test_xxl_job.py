"""Jobs of XXL-JOB: every field of a job's row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from raftsched.importers.foreign import Reading
from raftsched.importers.template import Template
from tests.unit.importers.house import read, reasons, said

BASE = {
    "id": 7, "jobGroup": 2, "jobDesc": "每日报表", "addTime": "2026-01-01", "author": "ana", "alarmEmail": "",
    "scheduleType": "CRON", "scheduleConf": "0 0 2 * * ?", "misfireStrategy": "DO_NOTHING",
    "executorRouteStrategy": "ROUND", "executorHandler": "reportHandler", "executorParam": "day=1",
    "executorBlockStrategy": "SERIAL_EXECUTION", "executorTimeout": 30, "executorFailRetryCount": 2,
    "glueType": "BEAN", "glueSource": "", "childJobId": "", "triggerStatus": 1, "triggerNextTime": 1,
}  # fmt: skip


def xxl(**changes: Any) -> Reading:
    answer = {"code": 200, "data": {"offset": 0, "data": [{**BASE, **changes}]}}
    return read("xxl-job", ("x.json", json.dumps(answer)), zone="Asia/Shanghai", template=Template.read("call:{task}"))


def test_a_whole_job() -> None:
    (entry,) = xxl().entries
    assert (entry.place, entry.name) == ("job 7", "reporthandler-7")
    assert entry.job == {
        "trigger": {"cron": "0 0 2 * * ?", "dialect": "quartz", "timezone": "Asia/Shanghai"},
        "handler": {"call": "report-handler"}, "params": {"param": "day=1"}, "overlap": "queue_all",
        "misfire": {"policy": "skip", "grace": "1m"}, "timeout": "30s", "description": "每日报表", "owner": "ana",
        "retry": {"delays": ["1s", "1s"], "on": ["failed", "timed_out"]},
        "labels": {"source": "xxl-job:7", "executor": "2"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes, found",
    [
        ({"triggerStatus": 0}, {"suspended": True}),
        ({"scheduleType": "NONE", "scheduleConf": ""}, {"trigger": {"manual": True}}),
        ({"scheduleType": "FIX_RATE", "scheduleConf": "90"}, {"trigger": {"every": "1m30s", "mode": "fixed_rate"}}),
        ({"scheduleType": "FIX_DELAY", "scheduleConf": "5"}, {"trigger": {"every": "5s", "mode": "fixed_delay"}}),
        ({"scheduleType": None, "scheduleConf": None, "jobCron": "0 0 3 * * ?"},
         {"trigger": {"cron": "0 0 3 * * ?", "dialect": "quartz", "timezone": "Asia/Shanghai"}}),
        ({"misfireStrategy": "FIRE_ONCE_NOW"}, {"misfire": {"policy": "once", "grace": "1m"}}),
        ({"executorBlockStrategy": "DISCARD_LATER"}, {"overlap": "forbid"}),
        ({"executorBlockStrategy": "COVER_EARLY"}, {"overlap": "replace"}),
        ({"executorRouteStrategy": "SHARDING_BROADCAST"}, {"placement": {"on": "all"}}),
        ({"glueType": "GLUE_SHELL", "glueSource": "echo $1\r\n"},
         {"handler": {"exec": ["bash", "-c", "echo $1\n", "xxl-job", "day=1", "0", "1"]}}),
        ({"glueType": "GLUE_PYTHON", "glueSource": "print(1)", "executorParam": None},
         {"handler": {"exec": ["python3", "-c", "print(1)", "", "0", "1"]}}),
    ],
)  # fmt: skip
def test_fields(changes: dict[str, Any], found: dict[str, Any]) -> None:
    reading = xxl(**changes)
    assert not reading.refused
    assert {key: reading.entries[0].job[key] for key in found} == found


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"id": None}, "no id"),
        ({"scheduleConf": "0 2 * * *"}, "has 5 fields"),
        ({"scheduleType": "FIX_RATE", "scheduleConf": "often"}, "whole number"),
        ({"scheduleType": "LUNAR"}, "are known"),
        ({"misfireStrategy": "MAYBE"}, "are known"),
        ({"executorBlockStrategy": "MAYBE"}, "are known"),
        ({"executorHandler": ""}, "no executorHandler"),
        ({"glueType": "GLUE_GROOVY"}, "GLUE_GROOVY, which is not run here"),
        ({"glueType": "GLUE_COBOL"}, "not known"),
        ({"glueType": "GLUE_SHELL"}, "no glueSource"),
        ({"executorTimeout": "long"}, "whole number"),
    ],
)
def test_jobs_that_are_refused(changes: dict[str, Any], reason: str) -> None:
    reading = xxl(**changes)
    assert not reading.entries
    assert reason in reasons(reading)[0]


def test_what_works_differently_is_told() -> None:
    notes = said(xxl(executorRouteStrategy="CONSISTENT_HASH", alarmEmail="a@b", childJobId="8,9", novelty=1))
    for word in (
        "CONSISTENT_HASH is left out",
        "alarmEmail a@b",
        "names 8, 9, no other job of this file",
        "novelty has",
    ):
        assert word in notes
    assert "shard index" in said(xxl(executorRouteStrategy="SHARDING_BROADCAST"))


def test_children_follow_their_parents() -> None:
    rows = [
        {**BASE, "id": 1, "childJobId": "1,3,4"}, {**BASE, "id": 2, "childJobId": "4, 5"},
        {**BASE, "id": 3, "scheduleType": "NONE", "scheduleConf": ""},
        {**BASE, "id": 4, "scheduleType": "NONE", "scheduleConf": ""}, {**BASE, "id": 5},
    ]  # fmt: skip
    reading = read("xxl-job", ("x.json", json.dumps(rows)))
    triggers = [entry.job["trigger"] for entry in reading.entries]
    assert triggers[2:4] == [
        {"after": {"job": "reporthandler-1"}}, {"after": {"any_of": ["reporthandler-1", "reporthandler-2"]}}
    ]  # fmt: skip
    assert "cron" in triggers[4]
    assert "also started by the success of reporthandler-2" in said(reading)
    assert "misfire" not in reading.entries[2].job


def test_the_table_as_csv() -> None:
    text = (
        "id,job_group,job_desc,schedule_type,schedule_conf,executor_handler,glue_type,trigger_status,executor_param\n"
        '7,2,"a, b",CRON,0 0 2 * * ?,reportHandler,BEAN,0,NULL\n'
    )
    (entry,) = read("xxl-job", ("x.csv", text)).entries
    assert (entry.name, entry.job["suspended"], entry.job["description"]) == ("reporthandler-7", True, "a, b")
    assert "params" not in entry.job
