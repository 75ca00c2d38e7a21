"""The modules of the pages of resources one by one: days of a calendar, forms, what holds a queue."""

from __future__ import annotations

import calendar
from typing import Any

import pytest

from tests.support.browser import Tab


@pytest.fixture(scope="module")
def tab(units: Tab) -> Tab:
    return units


CALENDAR = {
    "dates": ["2026-04-03"],
    "ranges": [{"from": "2026-08-10", "to": "2026-08-12"}, {"from": "2026-12-30", "to": "2027-01-02"}],
    "yearly": ["12-25", "02-29"],
    "weekdays": ["sun"],
}
FIELDS = [
    {"pointer": "/limit", "label": "Limit", "type": "number"},
    {"pointer": "/rate/per", "label": "Period"},
    {"pointer": "/tags", "label": "Tags", "type": "pairs"},
    {"pointer": "/delays", "label": "Delays", "type": "lines"},
    {"pointer": "/events", "label": "Events", "type": "checks", "options": ["failed"]},
    {"pointer": "/more", "label": "More", "type": "json"},
    {"pointer": "/active", "label": "Active", "type": "checkbox", "initial": True},
    {"pointer": "/secret", "label": "Secret", "type": "password"},
]


def test_days_are_excluded_by_what_a_calendar_says(tab: Tab) -> None:
    found = tab.page.evaluate(
        """async (calendar) => {
          const { exclusionOf } = await import("/ui/assets/x/charts/year.js");
          const kindOf = exclusionOf(calendar);
          return ["2026-04-03", "2026-08-12", "2026-08-13", "2027-01-01", "2030-12-25", "2028-02-29", "2026-11-22",
                  "2026-11-23"].map(kindOf);
        }""",
        CALENDAR,
    )
    assert found == ["date", "range", None, "range", "yearly", "yearly", "weekday", None]


@pytest.mark.parametrize(
    "day, kind, mode, change",
    [
        ("2026-05-04", None, "date", {"dates": ["2026-04-03", "2026-05-04"]}),
        ("2026-01-06", None, "yearly", {"yearly": ["01-06", "02-29", "12-25"]}),
        ("2026-04-03", "date", "yearly", {"dates": []}),
        ("2031-12-25", "yearly", "date", {"yearly": ["02-29"]}),
        # Out of the middle of three days, and off the edge of four.
        (
            "2026-08-11",
            "range",
            "date",
            {
                "dates": ["2026-04-03", "2026-08-10", "2026-08-12"],
                "ranges": [{"from": "2026-12-30", "to": "2027-01-02"}],
            },
        ),
        (
            "2026-12-30",
            "range",
            "date",
            {
                "dates": ["2026-04-03"],
                "ranges": [{"from": "2026-08-10", "to": "2026-08-12"}, {"from": "2026-12-31", "to": "2027-01-02"}],
            },
        ),
    ],
)
def test_a_click_on_a_day_lets_it_in_or_excludes_it(
    tab: Tab, day: str, kind: str | None, mode: str, change: dict[str, Any]
) -> None:
    assert tab.call("charts/year.js", "toggled", CALENDAR, day, kind, mode) == change


def test_a_range_of_days_goes_either_way(tab: Tab) -> None:
    both = [
        tab.call("charts/year.js", "withRange", CALENDAR, *days)
        for days in (("2026-09-01", "2026-09-05"), ("2026-09-05", "2026-09-01"))
    ]
    assert both[0] == both[1]
    assert both[0]["ranges"][1] == {"from": "2026-09-01", "to": "2026-09-05"}
    one = tab.call("charts/year.js", "withRange", CALENDAR, "2026-04-03", "2026-04-03")
    assert one == {"dates": ["2026-04-03"]}


@pytest.mark.parametrize("year", [1970, 2027, 2028, 2099])
def test_the_months_of_a_year_are_those_of_python(tab: Tab, year: int) -> None:
    expected = [
        [
            [f"{year}-{month:02}-{day:02}" if day else None for day in week]
            for week in calendar.monthcalendar(year, month)
        ]
        for month in range(1, 13)
    ]
    found = tab.call("charts/year.js", "monthsOf", year)
    assert [[(week + [None] * 7)[:7] for week in month] for month in found] == expected


def test_a_form_keeps_what_it_shows(tab: Tab) -> None:
    row = {
        "limit": 3,
        "rate": {"per": "1m"},
        "tags": {"a": "b: c"},
        "delays": ["5s", "1m"],
        "events": ["failed"],
        "more": {"x": [1]},
        "active": False,
        "secret": "never shown",
    }
    draft = tab.call("components/resource-form.js", "draftOf", FIELDS, row)
    assert (draft["/tags"], draft["/delays"], draft["/secret"]) == ("a: b: c", "5s\n1m", "")
    assert tab.call("components/resource-form.js", "bodyOf", FIELDS, draft) == {**row, "secret": ""}
    new = tab.call("components/resource-form.js", "draftOf", FIELDS, None)
    assert tab.call("components/resource-form.js", "bodyOf", FIELDS, new) == {
        "limit": None,
        "rate": {"per": None},
        "tags": {},
        "delays": [],
        "events": [],
        "more": None,
        "active": True,
        "secret": "",
    }


def test_errors_stand_at_the_field_they_are_about(tab: Tab) -> None:
    places = {
        "/limit": "/limit",
        "/rate": "/rate/per",  # missing as a whole: at what is inside
        "/delays/1": "/delays",
        "/limits": "",
        "": "",
    }
    errors = [{"pointer": pointer, "detail": "is wrong"} for pointer in places]
    found = tab.call("components/resource-form.js", "errorsByField", FIELDS, errors)
    assert {one["pointer"]: field for field, those in found.items() for one in those} == places


def test_what_holds_a_queue_is_told_in_its_order(tab: Tab) -> None:
    node = {"alive": True, "voter": True, "session_open": True, "drained": False, "slots": 4}
    nodes = [{**node, "id": "n1", "running": 0}, {**node, "id": "n2", "running": 4}, {**node, "id": "n3", "running": 4}]
    cluster = {"leader": "n1", "paused": False, "nodes": nodes}
    free = {"paused": False, "shut": None, "running": 1, "max_running": 1, "rate": None}

    def holds(queue: dict[str, Any], cluster: dict[str, Any]) -> list[str]:
        return list(tab.call("pages/queues.js", "obstacles", queue, cluster))

    assert holds(free, cluster) == ["All 8 slots of n2, n3 are taken."]  # the leader runs only what nobody else can
    assert holds(free, {**cluster, "nodes": nodes[:1]}) == []
    drained = [{**one, "drained": True} for one in nodes]
    assert holds(free, {**cluster, "nodes": drained})[0].startswith("No node starts runs now")
    full = {**free, "shut": "full"}
    assert holds(full, {**cluster, "paused": True})[:2] == [
        "The queue is full: 1 of 1 run.",
        "The cluster is paused: nothing is started on any node.",
    ]
    limited = {**free, "shut": "rate", "rate": {"count": 10, "per": "1m"}}
    assert holds(limited, {**cluster, "leader": None, "waits_for": None}) == [
        "Its rate is used up: 10 starts per 1m.",
        "The cluster has no leader now; nothing starts without one.",
    ]


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"ids": 2, "filter": None}, "2 jobs"),
        ({"ids": None, "filter": None}, "all jobs"),
        (
            {"ids": None, "filter": {"state": ["NEW", "EXPIRED"], "labels": {"team": "fin"}, "name_prefix": "a"}},
            "jobs with state NEW or EXPIRED; labels team=fin; name prefix a",
        ),
    ],
)
def test_what_an_operation_is_about(tab: Tab, asked: dict[str, Any], words: str) -> None:
    assert tab.call("pages/operations.js", "scopeText", asked) == words
