"""What the page of a job reckons: differences, what a run went through, months, axes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser import Tab


@pytest.fixture(scope="module")
def tab(units: Tab) -> Tab:
    return units


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 2]}}, []),
        ({"a": 1}, {"a": 2}, [("a", "changed")]),
        ({"a": 1}, {}, [("a", "removed")]),
        ({}, {"a": None}, [("a", "added")]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", "changed")]),
        ({"a": ["5s"]}, {"a": ["5s", "1m"]}, [("a[1]", "added")]),
        ({"a": [1]}, {"a": {"0": 1}}, [("a", "changed")]),
        ({"a": None}, {"a": {}}, [("a", "changed")]),
        ({"labels": {"a b": "1"}}, {"labels": {"a b": "2"}}, [('labels["a b"]', "changed")]),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, [("a", "removed"), ("b", "changed"), ("c", "added")]),
    ],
)
def test_what_differs_is_said_field_by_field(tab: Tab, before: Any, after: Any, found: list[tuple[str, str]]) -> None:
    differences = tab.call("pages/job/diff.js", "diff", before, after)
    assert [(one["path"], one["kind"]) for one in differences] == found


def test_texts_differ_line_by_line(tab: Tab) -> None:
    found = tab.call("pages/job/diff.js", "lines", "set -e\necho a\necho b", "set -e\necho b\necho c")
    assert [(line["kind"], line["text"]) for line in found] == [
        ("same", "set -e"),
        ("removed", "echo a"),
        ("same", "echo b"),
        ("added", "echo c"),
    ]


# ---------------------------------------------------------------- what a run went through

AT = "2026-11-23T06:00:00.000Z"


def time(ms: int) -> str:
    return f"2026-11-23T06:00:{ms // 1000:02}.{ms % 1000:03}Z"


def attempt(
    number: int, started: int | None, ended: int | None, outcome: str | None, assigned: int = 0
) -> dict[str, Any]:
    return {
        "number": number,
        "node": "n1",
        "assigned_at": time(assigned),
        "started_at": None if started is None else time(started),
        "ended_at": None if ended is None else time(ended),
        "outcome": outcome,
    }


def instance(state: str, *attempts: dict[str, Any], **more: Any) -> dict[str, Any]:
    common = {"manual": False, "scheduled_at": AT, "created_at": AT, "ended_at": None, "reason": None}
    return {**common, "state": state, "attempts": list(attempts), **more}


def seen(tab: Tab, run: dict[str, Any], now_ms: int, waits: Any = ()) -> list[tuple[str, int, int]]:
    begin = tab.page.evaluate("at => Date.parse(at)", AT)
    found = tab.call("pages/job/phases.js", "phases", run, begin + now_ms, list(waits))
    return [(one.get("outcome") or one["kind"], one["from"] - begin, one["to"] - begin) for one in found]


def test_a_run_waits_runs_and_waits_for_its_retry(tab: Tab) -> None:
    run = instance("SUCCEEDED", attempt(1, 20, 500, "failed"), attempt(2, 2500, 3000, "succeeded"), ended_at=time(3010))
    assert seen(tab, run, 60_000) == [
        ("queued", 0, 20),
        ("failed", 20, 500),
        ("retry", 500, 2500),
        ("succeeded", 2500, 3000),
    ]


def test_after_a_lost_worker_it_waits_for_its_turn(tab: Tab) -> None:
    run = instance("RUNNING", attempt(1, 0, 500, "lost"), attempt(2, 700, None, None))
    assert seen(tab, run, 1000) == [("lost", 0, 500), ("queued", 500, 700), ("running", 700, 1000)]


def test_a_worker_that_never_started_it_held_it(tab: Tab) -> None:
    run = instance("SUCCEEDED", attempt(1, None, 500, "lost", 30), attempt(2, 700, 900, "succeeded", 690))
    assert seen(tab, run, 1000) == [
        ("queued", 0, 30),
        ("unstarted", 30, 500),
        ("queued", 500, 700),
        ("succeeded", 700, 900),
    ]
    assert tab.call("pages/job/phases.js", "durationOf", run) == 200


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (instance("WAITING"), [("queued", 0, 1000)]),
        (instance("WAITING", reason="conditions"), [("conditions", 0, 1000)]),
        (instance("LAUNCHED", attempt(1, None, None, None)), [("queued", 0, 1000)]),
        (instance("RETRYING", attempt(1, 0, 400, "failed")), [("failed", 0, 400), ("retry", 400, 1000)]),
        (instance("KILLED", ended_at=time(300)), [("queued", 0, 300)]),
        (instance("TIMED_OUT", ended_at=time(300), reason="conditions_timeout"), [("conditions", 0, 300)]),
        (instance("SKIPPED", ended_at=time(300)), []),
        (instance("RUNNING", attempt(1, 700, None, None), manual=True, created_at=time(600)), None),
    ],
    ids=["waits", "conditions", "launched", "retrying", "killed", "never met", "skipped", "asked for"],
)
def test_each_state_has_its_phases(tab: Tab, run: dict[str, Any], found: list[tuple[str, int, int]] | None) -> None:
    assert seen(tab, run, 1000) == ([("queued", 600, 700), ("running", 700, 1000)] if found is None else found)


def test_the_wait_for_conditions_comes_from_the_explanation(tab: Tab) -> None:
    run = instance("SUCCEEDED", attempt(1, 900, 1000, "succeeded"), ended_at=time(1000))
    waits = [
        {"reason": "conditions", "from": time(10), "to": time(800)},
        {"reason": "worker", "from": time(800), "to": time(890)},
    ]
    assert seen(tab, run, 5000, waits) == [
        ("queued", 0, 10),
        ("conditions", 10, 800),
        ("queued", 800, 900),
        ("succeeded", 900, 1000),
    ]


# ---------------------------------------------------------------- months and axes


@pytest.mark.parametrize(
    ("month", "zone", "begins"),
    [
        ("2026-11", "UTC", "2026-11-01T00:00:00.000Z"),
        ("2026-11", "Europe/Madrid", "2026-10-31T23:00:00.000Z"),
        ("2026-07", "Europe/Madrid", "2026-06-30T22:00:00.000Z"),
        ("2026-11", "America/New_York", "2026-11-01T04:00:00.000Z"),  # the clocks go back at 2 on this day
        ("2027-01", "Asia/Kathmandu", "2026-12-31T18:15:00.000Z"),
        ("2026-04", "Pacific/Kiritimati", "2026-03-31T10:00:00.000Z"),
    ],
)
def test_a_month_begins_in_its_zone(tab: Tab, month: str, zone: str, begins: str) -> None:
    at = tab.call("pages/job/months.js", "startOfMonth", month, zone)
    assert tab.page.evaluate("at => new Date(at).toISOString()", at) == begins
    assert tab.call("pages/job/months.js", "monthOf", at, zone) == month
    assert tab.call("pages/job/months.js", "monthOf", at - 1, zone) != month


def test_months_follow_each_other(tab: Tab) -> None:
    assert tab.call("pages/job/months.js", "monthAfter", "2026-11", 2) == "2027-01"
    assert tab.call("pages/job/months.js", "monthAfter", "2026-01", -1) == "2025-12"


def scale(tab: Tab, values: list[float]) -> dict[str, Any]:
    found: dict[str, Any] = tab.page.evaluate(
        """async (values) => {
          const { lengthScale } = await import("/ui/assets/x/charts/scale.js");
          const { at, ticks, log } = lengthScale(values);
          return { ticks, log, at: [0, ...values].map(at) };
        }""",
        values,
    )
    return found


def test_an_axis_is_straight_while_all_can_be_seen_on_it(tab: Tab) -> None:
    found = scale(tab, [100, 200, 400])
    assert not found["log"]
    assert found["ticks"] == [0, 100, 200, 300, 400] or found["ticks"] == [0, 200, 400]
    assert found["at"] == [0, 0.25, 0.5, 1]


def test_an_axis_is_logarithmic_where_one_value_dwarfs_the_others(tab: Tab) -> None:
    found = scale(tab, [10, 12, 15, 60_000])
    assert found["log"]
    assert (found["at"][0], found["at"][-1]) == (0, 1)
    assert found["at"] == sorted(found["at"])
    assert found["at"][1] > 0.05, "what is small can be seen"
    assert len(found["ticks"]) <= 8


@pytest.mark.parametrize("values", [[], [0], [1], [0.4, 3], [86_400_000 * 900]])
def test_an_axis_of_anything(tab: Tab, values: list[float]) -> None:
    found = scale(tab, values)
    assert 1 <= len(found["ticks"]) <= 8
    assert all(0 <= part <= 1 for part in found["at"])


@pytest.mark.parametrize(
    ("part", "value"), [(0.5, 50), (0.99, 99), (0, 1), (1, 100)], ids=["median", "p99", "least", "most"]
)
def test_percentiles_are_those_of_the_api(tab: Tab, part: float, value: int) -> None:
    assert tab.call("charts/scale.js", "percentile", list(range(100, 0, -1)), part) == value
    assert tab.call("charts/scale.js", "percentile", [], part) is None


@pytest.mark.parametrize(
    ("text", "refused"),
    [("{}", False), ('{"a": [1]}', False), ("", True), ("{", True), ("[1]", True), ("null", True), ('"a"', True)],
)
def test_parameters_are_an_object(tab: Tab, text: str, refused: bool) -> None:
    assert bool(tab.call("pages/job/actions.js", "notObject", text)) is refused


@pytest.mark.parametrize(
    ("edges", "columns"),
    [
        ([("a", "b"), ("b", "c"), ("a", "c")], {"a": 0, "b": 1, "c": 2}),
        ([("a", "c"), ("b", "c")], {"a": 0, "b": 0, "c": 1}),
        ([("a", "b"), ("b", "a"), ("b", "c")], {"a": 1, "b": 0, "c": 1}),
        ([("gone", "a")], {"a": 0}),
    ],
)
def test_a_job_is_drawn_behind_all_that_it_waits_for(
    tab: Tab, edges: list[tuple[str, str]], columns: dict[str, int]
) -> None:
    graph = {"jobs": [{"name": name} for name in columns], "edges": [{"from": a, "to": b} for a, b in edges]}
    drawn = tab.page.evaluate(
        "async (graph) => { const app = document.querySelector('script[type=module]').src;"
        " const { places } = await import(new URL('charts/graph.js', app).href); return [...places(graph)]; }",
        graph,
    )
    assert {name: place["column"] for name, place in drawn} == columns
