"""What is told of the times of jobs that are imported, whatever they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raftsched.importers.due import judge
from raftsched.importers.foreign import Entry, Reading
from raftsched.importers.kinds import KINDS
from tests.support.stub_server import serve
from tests.unit.cli.house import JOB, routes, run
from tests.unit.importers.house import NOW_MS
from tests.unit.importers.test_xxl_job import BASE

MADRID = "Europe/Madrid"


def judged(kind: str = "kubernetes", **trigger: Any) -> Reading:
    entry = Entry("line 1", "a", "a", None, {"trigger": trigger, "handler": {"shell": "a"}})
    reading = Reading([entry], [], [("line 1", "before"), ("line 2", "of another")], {("line 1", "before")})
    judge(reading, kind, NOW_MS)
    return reading


def notes(kind: str = "kubernetes", **trigger: Any) -> list[str]:
    reading = judged(kind, **trigger)
    assert not reading.refused
    return [note for place, note in reading.notes if note not in ("before", "of another")]


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        ({"cron": "0 0 20 19 8 ? 2019", "dialect": "quartz", "timezone": "UTC"}, "no time left after"),
        ({"cron": "0 2 * * *", "ends_at": "2026-01-01T00:00:00Z"}, "is past, so this would never run"),
        ({"every": "1h", "starts_at": "2030-01-01T00:00:00Z", "ends_at": "2029-01-01T00:00:00Z"}, "before starts_at"),
        ({"rrule": "FREQ=DAILY;UNTIL=20200101T000000Z", "timezone": MADRID}, "this never fires"),
        ({"cron": "0 2 * * *", "timezone": "Mars"}, "no time zone"),
    ],
)  # fmt: skip
def test_what_a_node_would_refuse_is_refused_and_its_notes_are_taken_back(trigger: dict[str, Any], reason: str) -> None:
    reading = judged(**trigger)
    assert not reading.entries
    ((place, text, why),) = reading.refused
    assert (place, text) == ("line 1", "a")
    assert reason in why
    assert (reading.notes, reading.todo) == ([("line 2", "of another")], set())


def test_a_step_that_does_not_come_round_is_noted() -> None:
    (note,) = notes("crontab", cron="*/90 * * * *", timezone=MADRID)
    assert 'for every 90 minutes say "every": "90m"' in note


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "crontab"])
def test_a_time_that_clocks_skip_is_noted(kind: str) -> None:
    (note,) = notes(kind, cron="30 2 * * *", timezone=MADRID)
    assert note.startswith(
        "clocks change in Europe/Madrid, next on 2027-03-28: a time that they skip is run once, right after,"
    )
    (note,) = notes(kind, cron="*/15 2 * * *", timezone=MADRID)
    assert "times that they skip are not run, and those that come twice are run twice" in note
    (note,) = notes(kind, rrule="FREQ=DAILY;BYHOUR=2;BYMINUTE=30", timezone=MADRID)
    assert "next on 2027-03-28: a time" in note


@pytest.mark.parametrize(
    "trigger",
    [
        {"cron": "30 2 * * *", "timezone": "UTC"},
        {"cron": "30 5 * * *", "timezone": MADRID},
        {"cron": "30 2 1 * *", "timezone": MADRID},
        {"cron": "0 * * * *", "timezone": MADRID},
        {"cron": "*/5 * * * *", "timezone": MADRID},
        {"every": "1h"},
        {"at": "2027-03-28T01:00:00Z"},
        {"manual": True},
    ],
)
def test_times_that_no_change_of_clocks_bears_on_are_not_noted(trigger: dict[str, Any]) -> None:
    assert notes(**trigger) == []


def test_cron_itself_does_what_is_done_here() -> None:
    assert notes("crontab", cron="30 2 * * *", timezone=MADRID) == []


def test_a_dry_run_refuses_what_the_import_refuses(tmp_path: Path) -> None:
    rows = [{**BASE, "scheduleConf": "0 0 20 19 8 ? 2019"}, {**BASE, "id": 8}]
    (tmp_path / "x.json").write_text(json.dumps(rows))
    told = []
    compared = {"items": [{"result": "created"}]}
    with serve(lambda r: (201, JOB) if r.method == "PUT" else (200, compared)) as stub:
        for options in ([], ["--dry-run"]):
            result = run("--server", stub.url, "jobs", "import", str(tmp_path / "x.json"), "-z", "UTC", *options)
            assert result.exit_code == 1
            told.append([line.partition(" after ")[0] for line in result.stderr.splitlines() if "refused:" in line])
    assert told[0] == told[1] == ["job 7: refused: the schedule: no time left"]


def test_a_dry_run_asks_the_cluster_what_it_refuses(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([BASE, {**BASE, "id": 8}]))
    answer = {"items": [{"result": "refused", "detail": "/calendar is not there"}, {"result": "created"}]}
    arguments = ("jobs", "import", str(tmp_path / "x.json"), "-z", "UTC", "--dry-run")
    with serve(routes({"POST /v1/jobs:compare": answer})) as stub:
        result = run("--server", stub.url, *arguments)
        assert [(one["name"], one["namespace"]) for one in stub.requests[0].json] == [
            ("reporthandler-7", "default"),
            ("reporthandler-8", "default"),
        ]
    assert result.exit_code == 1
    assert "job 7: refused: /calendar is not there" in result.stderr
    assert "1 would be imported, 1 with a note, 1 refused" in result.stdout
    assert "no cluster was asked" not in result.stderr


def test_a_dry_run_without_a_cluster_says_so(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([BASE]))
    result = run(
        *("--server", "http://127.0.0.1:1", "jobs", "import", str(tmp_path / "x.json"), "-z", "UTC", "--dry-run"),
    )
    assert result.exit_code == 0
    assert "note: no cluster was asked what it would refuse: " in result.stderr
