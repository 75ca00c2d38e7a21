"""What the overview and the page of the cluster reckon: counts put together, leaderships, trouble in words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser import Tab

NAMES = ("started", "late_max_ms")
STEP = 300_000
DAY = 288


@pytest.fixture(scope="module")
def tab(units: Tab) -> Tab:
    return units


def counts(start: int, *values: int) -> dict[str, Any]:
    return {"from": start * STEP, "step": STEP, "counts": {name: list(values) for name in NAMES}}


def test_the_newest_counts_replace_and_move_the_day_on(tab: Tab) -> None:
    whole = counts(1_000, *[1] * (DAY - 1), 5)
    newest = counts(1_000 + DAY - 2, 2, 7, 3)
    day = tab.call("charts/heat-data.js", "lastDay", whole, newest)
    assert day["from"] == 1_001 * STEP
    assert day["counts"]["started"] == [*[1] * (DAY - 3), 2, 7, 3]
    alone = tab.call("charts/heat-data.js", "lastDay", whole, None)
    assert (alone["from"], alone["counts"]["started"]) == (1_000 * STEP, whole["counts"]["started"])
    longer = counts(999, 9, *[1] * DAY)  # as it is given while a step goes on: one more than a day has
    assert tab.call("charts/heat-data.js", "lastDay", longer, None)["counts"]["started"] == [1] * DAY


def test_longer_steps_add_up_and_keep_the_greatest_lateness(tab: Tab) -> None:
    coarse = tab.call("charts/heat-data.js", "coarser", counts(0, 1, 2, 3, 4), 3)
    assert coarse == {"from": 0, "step": 3 * STEP, "counts": {"started": [6, 4], "late_max_ms": [3, 4]}}
    assert tab.call("charts/heat-data.js", "totals", counts(0, 1, 2, 3, 4), 2) == {"started": 7, "late_max_ms": 4}


@pytest.mark.parametrize(("count", "most", "level"), [(0, 9, 0), (1, 10_000, 1), (5, 5, 5), (1, 1, 5), (4, 100, 1)])
def test_what_is_there_is_never_shown_as_nothing(tab: Tab, count: int, most: int, level: int) -> None:
    assert tab.call("charts/heat-data.js", "levelOf", count, most) == level


def test_a_leadership_lasts_until_the_next(tab: Tab) -> None:
    terms = [
        {"term": 4, "leader": "n2", "at": "2030-01-01T00:02:00Z", "index": 9},
        {"term": 1, "leader": "n1", "at": "2030-01-01T00:00:00Z", "index": 1},
    ]
    now = 1_893_456_000_000 + 300_000
    found = tab.call("charts/terms.js", "spans", terms, now)
    assert [(one["term"], one["to"] - one["from"]) for one in found] == [(1, 120_000), (4, 180_000)]


def node(name: str, **changes: Any) -> dict[str, Any]:
    disk = {"free": 50_000_000_000, "total": 100_000_000_000, "store": 1, "output": 1}
    known = {"id": name, "alive": True, "voter": True, "session_open": True, "drained": False, "trouble": None}
    return {**known, "lag": 0, "clock_offset_ms": 0, "disk": disk, **changes}


def cluster(*nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    known = {"leader": "n1", "waits_for": None, "formed": True, "paused": False, "waiting": []}
    return {**known, "nodes": list(nodes), **changes}


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (cluster(node("n1"), node("n2"), node("n3")), []),
        (cluster(node("n1"), leader=None, waits_for="n2 is awaited."), ["n2 is awaited."]),
        (cluster(node("n1"), leader=None), ["No node leads now."]),
        (cluster(node("n1"), paused=True), ["paused"]),
        (cluster(node("n1"), node("n2"), node("n3", alive=False)), ["n3 does not answer. No other may be lost."]),
        (cluster(node("n1", trouble="it waits for 7 (cat)")), ["n1 starts no runs: it waits for 7 (cat)."]),
        (cluster(node("n1", lag=5_000)), ["n1 is 5,000 entries"]),
        (cluster(node("n1", clock_offset_ms=-400)), ["clock of n1 is 400 ms off"]),
        (cluster(node("n1", disk={"free": 5, "total": 10, "store": 1, "output": 1})), ["disk of n1 has 5 B left"]),
        (cluster(node("n1", disk=None, lag=None, clock_offset_ms=None)), []),
        (cluster(node("n1", raft="a:1", raft_announced="b:2")), ["n1 is at b:2, and the members have a:1"]),
        (cluster(node("n1", drained=True), node("n2", drained=True)), ["n1, n2 are drained"]),
        (cluster(node("n1"), waiting=[{"id": "n4", "why": "other-disk"}]), ["n4 asks to be let in (other disk)"]),
    ],
)
def test_trouble_is_said_in_words(tab: Tab, seen: dict[str, Any], words: list[str]) -> None:
    found = " ".join(one["text"] for one in tab.call("pages/cluster/trouble.js", "troubles", seen))
    assert all(word in found for word in words), found
    assert bool(found) == bool(words), found
