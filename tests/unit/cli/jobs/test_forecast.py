"""`raftsched forecast` against a stub of the API: its text as it is, in 80 columns."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from raftsched.cli.jobs.forecast import as_text
from tests.support.stub_server import serve
from tests.unit.cli.house import run

DUE = [2] * 23 + [412]
BUSY = [0.5] * 22 + [6.25, 14.1]


def found(**more: Any) -> dict[str, Any]:
    mail = [0] * 23 + [12]
    queues = [
        {"queue": "default", "total": 446, "due": [], "busy": [0.2, 10.5], "slots": 12, "max_running": None},
        {"queue": "mail", "total": 12, "due": mail, "busy": [0.0] * 23 + [3.6], "slots": 8, "max_running": 2},
    ]
    jobs = [
        {"id": f"0d3k5xw2a9f4{i}", "name": name, "namespace": "billing", "queue": "default", "due": 60 - i}
        for i, name in enumerate(["nightly-invoices-of-the-southern-region", "tick", None])
    ]
    peak = {
        "at": "2027-03-28T22:00:00.000Z",
        "due": 412,
        "busy": 14.1,
        "queues": [{"queue": "default", "due": 400}, {"queue": "mail", "due": 12}],
        "jobs": jobs,
        "jobs_due": 240,
    }
    return {
        "from": "2027-03-27T23:00:00.000Z",
        "to": "2027-03-28T23:00:00.000Z",
        "counted_from": "2027-03-27T23:12:00.000Z",
        "step": "1h",
        "total": sum(DUE),
        "estimated": 24,
        "due": DUE,
        "busy": BUSY,
        "slots": 12,
        "queues": [{**one, "paused": False} for one in queues],
        "queues_left_out": 0,
        "peaks": [peak, {**peak, "at": "2027-03-27T23:00:00.000Z", "due": 2, "busy": 0.5, "jobs_due": 3}],
        "jobs": 241,
        "unmeasured": 1,
        "left_out": 3,
        "complete": True,
        "stopped_at": None,
        **more,
    }


TEXT = """\
from 2027-03-27 23:00 to 2027-03-28 23:00, UTC
458 runs of 241 jobs are due, beside 12 slots

MOST IS DUE
2027-03-28 22:00  412 due, 14.1 busy !
  queues  default 400, mail 12
  jobs    billing/nightly-invoices-of-the-southern-region 60, billing/tick 59,
          billing/0d3k5xw2a9f42 58, and 237 more
2027-03-27 23:00  2 due, 0.5 busy
  queues  default 400, mail 12
  jobs    billing/nightly-invoices-of-the-southern-region 60, billing/tick 59,
          billing/0d3k5xw2a9f42 58

QUEUE           DUE  MOST BUSY   SLOTS   LIMIT
default         446       10.5      12       -
mail             12        3.6       8       2 !

FROM                  DUE    BUSY
2027-03-27 23:00        2     0.5   #
2027-03-28 00:00        2     0.5   #
2027-03-28 01:00        2     0.5   #
2027-03-28 02:00        2     0.5   #
2027-03-28 03:00        2     0.5   #
2027-03-28 04:00        2     0.5   #
2027-03-28 05:00        2     0.5   #
2027-03-28 06:00        2     0.5   #
2027-03-28 07:00        2     0.5   #
2027-03-28 08:00        2     0.5   #
2027-03-28 09:00        2     0.5   #
2027-03-28 10:00        2     0.5   #
2027-03-28 11:00        2     0.5   #
2027-03-28 12:00        2     0.5   #
2027-03-28 13:00        2     0.5   #
2027-03-28 14:00        2     0.5   #
2027-03-28 15:00        2     0.5   #
2027-03-28 16:00        2     0.5   #
2027-03-28 17:00        2     0.5   #
2027-03-28 18:00        2     0.5   #
2027-03-28 19:00        2     0.5   #
2027-03-28 20:00        2     0.5   #
2027-03-28 21:00        2     6.2   #
2027-03-28 22:00      412    14.1 ! ############################################

! all queues: 2027-03-28 22:00 to 23:00, up to 14.1 busy, 12 slots
! queue mail: 2027-03-28 22:00 to 23:00, up to 3.6 busy, 2 slots
24 of what is due is an estimate: after a fixed delay, or after other jobs
1 job never ended a run: their slots are not known, and not counted
3 jobs left out: paused, or with times that cannot be computed
"""


def test_the_text_as_it_is() -> None:
    with serve(lambda r: (200, found())) as stub:
        result = run("--server", stub.url, "forecast", "-N", "billing", "--for", "24h", "--step", "1h")
        asked = parse_qs(urlsplit(stub.requests[0].path).query)
        assert asked == {"namespace": ["billing"], "for": ["24h"], "step": ["1h"]}
        assert json.loads(run("--server", stub.url, "forecast", "-o", "json").output) == found()
        assert run("--server", stub.url, "forecast", "-o", "yaml").output.startswith("from:")
        assert "\n2027-03-28T22:00:00.000Z" in "\n" + run("--server", stub.url, "forecast", "-o", "name").output
    assert result.output == TEXT
    assert max(map(len, result.output.splitlines())) <= 80


def test_a_window_of_minutes_is_drawn_in_some_lines() -> None:
    minutes = {"step": "1m", "due": [1] * 1_440, "busy": [0.0] * 1_439 + [20.0], "total": 1_440}
    lines = list(as_text(found(**minutes)))
    begin = next(i for i, line in enumerate(lines) if line.startswith("FROM"))
    chart = lines[begin + 1 : lines.index("", begin)]
    assert len(chart) == 25
    assert [line.split()[2] for line in chart[:3]] == ["58", "58", "58"]
    assert " ! " in chart[-1]


def test_that_nothing_is_due_is_said() -> None:
    empty = {"total": 0, "due": [], "busy": [], "jobs": 0, "peaks": [], "queues": []}
    empty |= {"estimated": 0, "unmeasured": 0, "left_out": 0}
    assert list(as_text(found(**empty))) == [
        "from 2027-03-27 23:00 to 2027-03-28 23:00, UTC",
        "0 runs of 0 jobs are due, beside 12 slots",
    ]


def test_what_cannot_be_counted_on_is_warned_of() -> None:
    queues = found()["queues"]
    queues[0]["slots"], queues[1]["paused"] = 0, True
    busy = [20.0, 0.0] * 12
    text = " ".join(as_text(found(queues=queues, busy=busy, complete=False, stopped_at="0d3k5xw2a9f4m")))
    assert "! nobody takes runs of queue default: 446 runs are due" in text
    assert "! queue mail is paused: what is due in it waits" in text
    assert "! all queues: 7 more stretches with too few slots" in text
    assert "those after 0d3k5xw2a9f4m are not counted" in text


@pytest.mark.parametrize("columns", [60, 80])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    queues = [{**one, "queue": "q" * 128} for one in found()["queues"]]
    peaks = found()["peaks"]
    peaks[0]["queues"][0]["queue"] = "q" * 128
    peaks[0]["jobs"][0]["name"] = "n" * 128
    lines = list(as_text(found(queues=queues, peaks=peaks), columns))
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("qqq") and "…" in line for line in lines)
