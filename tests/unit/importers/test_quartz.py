"""Quartz: its XML, rows of its tables, and files that mean harm."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest

from raftsched.importers.foreign import Reading
from raftsched.importers.template import Template
from tests.unit.importers.house import read, reasons, said

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<job-scheduling-data xmlns="http://www.quartz-scheduler.org/xml/JobSchedulingData" version="2.0">"""
JOB = """<job><name>clean</name><group>ops</group><description>Cleans</description>
<job-class>com.acme.CleanupJob</job-class><durability>true</durability><recover>false</recover>
<job-data-map><entry><key>days</key><value>7</value></entry></job-data-map></job>"""


def xml(body: str) -> Reading:
    text = f"{HEAD}<schedule>{body}</schedule></job-scheduling-data>"
    return read("quartz", ("jobs.xml", text), zone="Europe/Madrid", template=Template.read("call:{task}"))


def trigger(kind: str, fields: str, name: str = "t") -> str:
    return (f"<trigger><{kind}><name>{name}</name><job-name>clean</job-name><job-group>ops</job-group>{fields}"
            f"</{kind}></trigger>")  # fmt: skip


def one(kind: str, fields: str) -> dict[str, Any]:
    reading = xml(JOB + trigger(kind, fields))
    assert not reading.refused, reading.refused
    return reading.entries[0].job


def test_a_whole_job() -> None:
    job = one("cron", "<description>x</description><priority>8</priority>"
              "<job-data-map><entry><key>dry</key><value>no</value></entry></job-data-map>"
              "<start-time>2030-01-01T00:00:00</start-time><end-time>2031-01-01T00:00:00Z</end-time>"
              "<misfire-instruction>MISFIRE_INSTRUCTION_DO_NOTHING</misfire-instruction>"
              "<cron-expression>0 0/5 14 ? * 2-6</cron-expression><time-zone>Asia/Tokyo</time-zone>")  # fmt: skip
    assert job == {
        "trigger": {"cron": "0 0/5 14 ? * 2-6", "dialect": "quartz", "timezone": "Asia/Tokyo",
                    "starts_at": "2029-12-31T23:00:00Z", "ends_at": "2031-01-01T00:00:00Z"},
        "handler": {"call": "com.acme.cleanup-job"}, "params": {"days": "7", "dry": "no"},
        "description": "Cleans", "labels": {"source": "quartz:jobs.xml", "group": "ops"}, "overlap": "allow",
        "priority": 8, "misfire": {"policy": "skip", "grace": "1m"},
    }  # fmt: skip


@pytest.mark.parametrize(
    "kind, fields, found",
    [
        ("simple", "<repeat-count>-1</repeat-count><repeat-interval>90000</repeat-interval>", {"every": "1m30s"}),
        ("simple", "<repeat-count>REPEAT_INDEFINITELY</repeat-count><repeat-interval>1000</repeat-interval>",
         {"every": "1s"}),
        ("simple", "<start-time>2030-01-01T00:00:00Z</start-time><repeat-count>4</repeat-count>"
         "<repeat-interval>60000</repeat-interval>",
         {"every": "1m", "max_runs": 5, "starts_at": "2030-01-01T00:00:00Z"}),
        ("simple", "<start-time>2030-01-01T00:00:00Z</start-time>", {"at": "2030-01-01T00:00:00Z"}),
        ("simple", "<start-time>2027-03-28T02:30:00</start-time>", {"at": "2027-03-28T01:00:00Z"}),  # as of cron
        ("calendar-interval", "<start-time>2026-01-05T09:00:00</start-time><repeat-interval>2</repeat-interval>"
         "<repeat-interval-unit>WEEK</repeat-interval-unit>",
         {"rrule": "FREQ=WEEKLY;INTERVAL=2", "timezone": "Europe/Madrid", "starts_at": "2026-01-05T08:00:00Z"}),
        ("calendar-interval", "<repeat-interval>3</repeat-interval><repeat-interval-unit>HOUR</repeat-interval-unit>",
         {"every": "3h"}),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><time-zone>GMT+2</time-zone>",
         {"cron": "0 0 2 * * ?", "dialect": "quartz", "timezone": "Etc/GMT-2"}),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><time-zone>GMT-03:00</time-zone>",
         {"cron": "0 0 2 * * ?", "dialect": "quartz", "timezone": "Etc/GMT+3"}),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><time-zone>PST</time-zone>",
         {"cron": "0 0 2 * * ?", "dialect": "quartz", "timezone": "America/Los_Angeles"}),
        ("cron", "<cron-expression>0 0 12 L * ?</cron-expression>",
         {"cron": "0 0 12 L * ?", "dialect": "quartz", "timezone": "Europe/Madrid"}),
    ],
)  # fmt: skip
def test_triggers(kind: str, fields: str, found: dict[str, Any]) -> None:
    assert one(kind, fields)["trigger"] == found


@pytest.mark.parametrize(
    "kind, fields, reason",
    [
        ("cron", "<cron-expression>0 0 * * *</cron-expression>", "has 5 fields"),
        ("cron", "<cron-expression>0 0 25 * * ?</cron-expression>", "allowed are 0-23"),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><time-zone>GMT+5:30</time-zone>", "always UTC+5:30"),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><time-zone>Mars</time-zone>", "no time zone"),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><end-time>2020-01-01T00:00:00Z</end-time>", "ended at"),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><misfire-instruction>SOMETIMES</misfire-instruction>",
         "not known"),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><priority>high</priority>", "whole number"),
        ("cron", "<cron-expression>0 0 2 * * ?</cron-expression><start-time>soon</start-time>", "no time such as"),
        ("simple", "", "runs once when Quartz starts"),
        ("simple", "<start-time>2020-01-01T00:00:00Z</start-time>", "is past"),
        ("simple", "<repeat-count>-1</repeat-count>", "without an interval"),
        ("simple", "<repeat-count>-1</repeat-count><repeat-interval>100</repeat-interval>", "shortest"),
        ("simple", "<start-time-seconds-in-future>5</start-time-seconds-in-future>", "no counterpart"),
        ("calendar-interval", "<repeat-interval>1</repeat-interval><repeat-interval-unit>DAY</repeat-interval-unit>",
         "no start"),
        ("calendar-interval", "<start-time>2026-01-31T00:00:00</start-time><repeat-interval>1</repeat-interval>"
         "<repeat-interval-unit>MONTH</repeat-interval-unit>", "day 31"),
        ("calendar-interval", "<start-time>2026-01-31T00:00:00</start-time><repeat-interval>1</repeat-interval>"
         "<repeat-interval-unit>MOON</repeat-interval-unit>", "not known"),
        ("lunar", "", "'lunar' is not known"),
    ],
)  # fmt: skip
def test_triggers_that_are_refused(kind: str, fields: str, reason: str) -> None:
    reading = xml(JOB + trigger(kind, fields))
    assert not reading.entries
    assert reason in reasons(reading)[0]


@pytest.mark.parametrize(
    "kind, count, instruction, policy",
    [
        ("cron", "", "", "once"),
        ("cron", "", "MISFIRE_INSTRUCTION_FIRE_ONCE_NOW", "once"),
        ("cron", "", "MISFIRE_INSTRUCTION_IGNORE_MISFIRE_POLICY", "all"),
        ("simple", "-1", "MISFIRE_INSTRUCTION_SMART_POLICY", "skip"),
        ("simple", "9", "MISFIRE_INSTRUCTION_SMART_POLICY", "once"),
        ("simple", "9", "MISFIRE_INSTRUCTION_RESCHEDULE_NEXT_WITH_EXISTING_COUNT", "skip"),
        ("simple", "9", "MISFIRE_INSTRUCTION_RESCHEDULE_NOW_WITH_EXISTING_REPEAT_COUNT", "once"),
    ],
)
def test_misfires(kind: str, count: str, instruction: str, policy: str) -> None:
    fields = f"<misfire-instruction>{instruction}</misfire-instruction>"
    fields += (f"<repeat-count>{count}</repeat-count><repeat-interval>60000</repeat-interval>" if count else
               "<cron-expression>0 0 2 * * ?</cron-expression>")  # fmt: skip
    assert one(kind, fields)["misfire"]["policy"] == policy


def test_a_job_with_several_triggers_is_several_jobs_and_one_without_waits_to_be_asked() -> None:
    cron = "<cron-expression>0 0 2 * * ?</cron-expression>"
    reading = xml(JOB + trigger("cron", cron, "a") + trigger("cron", cron, "b"))
    assert [entry.name for entry in reading.entries] == ["ops-clean-a", "ops-clean-b"]
    assert xml(JOB).entries[0].job["trigger"] == {"manual": True}
    assert "is not in this file" in reasons(xml(trigger("cron", cron)))[0]
    assert "no job class" in reasons(xml("<job><name>x</name></job>"))[0]


def test_what_needs_a_hand_is_told() -> None:
    reading = xml(JOB + trigger("cron", "<cron-expression>0 0 2 * * ?</cron-expression>"
                                "<calendar-name>holidays</calendar-name>"))  # fmt: skip
    assert reading.entries[0].job["suspended"] is True
    for word in ("calendar 'holidays' is not here", "@DisallowConcurrentExecution", "announce the handler"):
        assert word in said(reading)


LAUGHS = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<job-scheduling-data>&b;</job-scheduling-data>"""
OUTSIDE = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>
<job-scheduling-data>&a;</job-scheduling-data>"""


@pytest.mark.parametrize(
    "data, reason",
    [
        (LAUGHS, "declares an entity"),
        (OUTSIDE, "declares an entity"),
        ('<!DOCTYPE x SYSTEM "http://127.0.0.1:1/x.dtd"><job-scheduling-data>&a;</job-scheduling-data>', "entity"),
        ("<job-scheduling-data>&a;</job-scheduling-data>", "undefined entity"),
        ("<a>" * 60 + "</a>" * 60, "50 levels"),
        ("<job-scheduling-data>", "no element found"),
        ("<other/>", "its root is 'other'"),
        ('<?xml version="1.0" encoding="klingon"?><job-scheduling-data/>', "is not XML"),
        (b"<job-scheduling-data>\xff</job-scheduling-data>", "not well-formed"),
        (b"\xff\xfe<\x00", "is not XML"),
    ],
)
def test_files_that_mean_harm_are_usage_errors(data: str | bytes, reason: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        read("quartz", ("jobs.xml", data))
    assert reason in refused.value.message


def test_other_encodings_are_read() -> None:
    text = (
        f'<?xml version="1.0" encoding="%s"?>{HEAD.partition("?>")[2]}<schedule>{JOB}</schedule></job-scheduling-data>'
    )
    for encoding in ("utf-16", "iso-8859-1"):
        data = (text % encoding).replace("Cleans", "Señor").encode(encoding)
        assert read("quartz", ("jobs.xml", data)).entries[0].job["description"] == "Señor"


ROW = {
    "TRIGGER_NAME": "t", "TRIGGER_GROUP": "g", "JOB_NAME": "clean", "JOB_GROUP": "DEFAULT", "TRIGGER_STATE": "WAITING",
    "TRIGGER_TYPE": "CRON", "START_TIME": "1767225600000", "END_TIME": "0", "PRIORITY": "5", "MISFIRE_INSTR": "2",
    "CALENDAR_NAME": None, "CRON_EXPRESSION": "0 0 2 * * ?", "TIME_ZONE_ID": "Europe/Madrid",
    "JOB_CLASS_NAME": "com.acme.CleanupJob", "IS_NONCONCURRENT": "1", "JOB_DESCRIPTION": "Cleans",
}  # fmt: skip


def table(**changes: Any) -> Reading:
    return read("quartz", ("q.json", json.dumps([{**ROW, **changes}])), template=Template.read("call:{task}"))


def test_rows_of_the_tables() -> None:
    (entry,) = table().entries
    assert entry.job == {
        "trigger": {"cron": "0 0 2 * * ?", "dialect": "quartz", "timezone": "Europe/Madrid"},
        "handler": {"call": "com.acme.cleanup-job"}, "labels": {"source": "quartz:q.json"}, "description": "Cleans",
        "overlap": "queue_one", "misfire": {"policy": "skip", "grace": "1m"},
    }  # fmt: skip
    assert table(TRIGGER_STATE="PAUSED").entries[0].job["suspended"] is True
    assert table(IS_NONCONCURRENT="0").entries[0].job["overlap"] == "allow"
    simple = {"TRIGGER_TYPE": "SIMPLE", "REPEAT_COUNT": 9, "REPEAT_INTERVAL": 60000, "TIMES_TRIGGERED": 4}
    assert table(**simple).entries[0].job["trigger"] == {
        "every": "1m", "max_runs": 6, "starts_at": "2026-01-01T00:00:00Z"
    }  # fmt: skip
    interval = {"TRIGGER_TYPE": "CAL_INT", "STR_PROP_1": "DAY", "INT_PROP_1": 2, "STR_PROP_2": "UTC"}
    assert table(**interval).entries[0].job["trigger"]["rrule"] == "FREQ=DAILY;INTERVAL=2"
    assert "objects of Java" in said(table(JOB_DATA="rO0ABX"))
    for changes, reason in (
        ({"TRIGGER_TYPE": "BLOB"}, "not known"), ({"TRIGGER_STATE": "COMPLETE"}, "runs no more"),
        ({"TRIGGER_TYPE": "CAL_INT"}, "STR_PROP_1"), ({**simple, "TIMES_TRIGGERED": 10}, "as often as it should"),
        ({"START_TIME": "soon"}, "whole number"),
    ):  # fmt: skip
        assert reason in reasons(table(**changes))[0]


def test_csv_and_names_of_java() -> None:
    names = ["trigger_name", "job_name", "job_group", "job_class_name", "trigger_type", "cron_expression"]
    for delimiter in (",", ";", "\t"):
        text = delimiter.join(names) + "\n" + delimiter.join(["t", "clean", "x", "a.B", "CRON", '"0 0 2 ? * MON,TUE"'])
        (entry,) = read("quartz", ("q.csv", "\ufeff" + text)).entries
        assert (entry.place, entry.name) == ("line 2", "x-clean")
        assert entry.job["trigger"]["cron"] == "0 0 2 ? * MON,TUE"
    java = {"triggerName": "t", "jobName": "clean", "jobClassName": "a.B", "cronExpression": "0 0 2 * * ?"}
    assert read("quartz", ("q.json", json.dumps({"rows": [java]}))).entries[0].name == "clean"


@pytest.mark.parametrize(
    "text, reason",
    [
        ("trigger_name,job_name,job_group\na,b\n", "2 values for 3 columns"),
        ('trigger_name,job_name,job_group\n"a,b,c\n', "not CSV"),
        ("trigger_name,job_name,job_group\n" + "x" * (1 << 20) + "x,b,c\n", "not CSV"),
    ],
)
def test_csv_that_is_wrong(text: str, reason: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        read("quartz", ("q.csv", text))
    assert reason in refused.value.message


def test_the_query_of_the_documentation_makes_rows_that_are_read() -> None:
    page = Path(__file__).parents[3] / "docs" / "moving.md"
    query = page.read_text().partition("```sql\n")[2].partition("```")[0]
    names = {"j": "JOB_DETAILS", "t": "TRIGGERS", "c": "CRON_TRIGGERS", "s": "SIMPLE_TRIGGERS", "p": "SIMPROP_TRIGGERS"}
    columns: dict[str, set[str]] = {}
    for alias, column in re.findall(r"\b([jtcsp])\.([A-Z_0-9]+)", query):
        columns.setdefault(names[alias], set()).add("DESCRIPTION" if column == "JOB_DESCRIPTION" else column)
    row = {
        **{"SCHED_NAME": "s", "JOB_NAME": "clean", "JOB_GROUP": "ops", "JOB_CLASS_NAME": "com.acme.CleanupJob"},
        **{"TRIGGER_NAME": "t", "TRIGGER_GROUP": "g", "TRIGGER_TYPE": "CRON", "TRIGGER_STATE": "WAITING"},
        **{"CRON_EXPRESSION": "0 0 4 * * ?", "TIME_ZONE_ID": "Europe/Madrid", "PRIORITY": 5, "IS_NONCONCURRENT": 1},
    }
    with closing(sqlite3.connect(":memory:")) as database:
        database.row_factory = sqlite3.Row
        for table, known in columns.items():
            database.execute(f"CREATE TABLE QRTZ_{table} ({', '.join(sorted(known))})")
            given = {column: row[column] for column in sorted(known) if column in row}
            if table in ("JOB_DETAILS", "TRIGGERS", "CRON_TRIGGERS"):
                marks = ", ".join("?" * len(given))
                database.execute(f"INSERT INTO QRTZ_{table} ({', '.join(given)}) VALUES ({marks})", [*given.values()])
        rows = [dict(found) for found in database.execute(query)]
    reading = read("quartz", ("rows.json", json.dumps(rows)), zone="UTC", template=Template.read("call:{task}"))
    assert not reading.refused, reading.refused
    assert reading.entries[0].job["trigger"]["cron"] == "0 0 4 * * ?"
    assert reading.entries[0].job["trigger"]["timezone"] == "Europe/Madrid"
