"""The modules below the long lists, without a cluster: what a change concerns, rows put in place, and texts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browser import Tab

DIGEST = {"kinds": ["jobs", "runs"], "jobs": ["a"], "runs": ["b@7"], "more": False}
# A list as the API has it: the newest first, pages by cursor. `calls` are the requests.
SERVER = """(count) => {
  window.things = Array.from({ length: count }, (_, at) => ({ id: String(at).padStart(6, "0"), n: 0 })).reverse();
  window.calls = [];
  window.fetch = async (url) => {
    const query = new URL(url).searchParams;
    calls.push([query.get("cursor"), Number(query.get("limit"))]);
    const after = query.get("cursor");
    const rest = after ? things.filter((one) => one.id < after) : things;
    const items = rest.slice(0, Number(query.get("limit"))).map((one) => ({ ...one }));
    const next = items.length < rest.length ? items.at(-1).id : null;
    return new Response(JSON.stringify({ items, next }), { headers: { "Raftsched-Leader": "n1" } });
  };
}"""
OPEN = """async () => {
  const { LiveList } = await import("/ui/assets/x/core/live-list.js");
  const touched = ({ jobs }) => jobs;
  const compare = (a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
  const options = { path: "/v1/things", query: {}, compare, kinds: ["jobs"], touched, made: touched };
  window.list = new LiveList(options, () => {});
  window.until = async (test) => { while (!test()) await new Promise((resolve) => setTimeout(resolve, 5)); };
  await until(() => list.done);
}"""
IDS = "() => list.rows.map((one) => one.id)"


@pytest.fixture
def tab(units: Tab) -> Tab:
    return units


@pytest.fixture
def rows(units: Tab) -> Any:
    """Evaluates in a page with a list of 3,000 things that was read to its end."""
    units.page.reload()
    units.page.evaluate(SERVER, 3_000)
    units.page.evaluate(OPEN)
    yield units.page.evaluate
    units.page.evaluate("() => list.stop()")
    units.page.reload()


@pytest.mark.parametrize(
    "kind, concerned",
    [
        ("jobs", True), ("runs", True), ("queues", False), ("job:a", True), ("job:b", True), ("job:c", False),
        ("runs-of:b", True), ("runs-of:a", False), ("run:b@7", True), ("run:b@8", False),
    ],
)  # fmt: skip
def test_what_a_change_concerns(tab: Tab, kind: str, concerned: bool) -> None:
    script = """async ([said, kind]) => {
      const { digest } = await import("/ui/assets/x/core/changes.js");
      const { concerns } = await import("/ui/assets/x/core/store.js");
      return concerns(digest(said), kind);
    }"""
    assert tab.page.evaluate(script, [DIGEST, kind]) == concerned
    many = {"kinds": ["runs"], "jobs": [], "runs": [], "more": True}
    assert tab.page.evaluate(script, [many, kind]) == (kind.startswith("run") or kind.startswith("job:"))


def test_all_rows_are_read_in_few_requests_the_screen_first(rows: Any) -> None:
    assert rows(IDS) == [f"{n:06}" for n in range(2_999, -1, -1)]
    assert rows("() => calls.map(([, limit]) => limit)") == [100, 1000, 1000, 1000]
    assert rows("() => [list.length, list.total, list.indexOf('002997')]") == [3_000, 3_000, 2]


def test_what_is_on_the_screen_is_read_again_and_nothing_else(rows: Any) -> None:
    rows("""async () => {
      calls.length = 0;
      things.splice(things.findIndex((one) => one.id === "002990"), 1); // one goes,
      things.unshift({ id: "003000", n: 0 }); // one comes,
      things.find((one) => one.id === "002980").n = 7; // and one is something else
      await list.refresh();
    }""")
    wanted = [f"{n:06}" for n in range(3_000, -1, -1) if n != 2_990]
    assert rows(IDS) == wanted
    assert rows("() => [list.get('002980').n, list.get('002990') ?? null, calls]") == [7, None, [[None, 100]]]


def test_further_down_the_page_that_is_shown_is_read_again(rows: Any) -> None:
    rows("""async () => {
      list.look(1500, 1530);
      calls.length = 0;
      const at = things.findIndex((one) => one.id === "001490");
      things.splice(at, 1);
      things.find((one) => one.id === "001480").n = 7;
      await list.refresh();
    }""")
    assert rows("() => calls.length") == 1
    assert rows("() => [list.rows.length, list.get('001480').n, list.indexOf('001490')]") == [2_999, 7, -1]
    assert rows(IDS) == [f"{n:06}" for n in range(2_999, -1, -1) if n != 1_490]


def test_more_new_rows_than_are_read_at_once_leave_no_hole(rows: Any) -> None:
    rows("""async () => {
      for (let n = 3000; n < 3400; n++) things.unshift({ id: String(n).padStart(6, "0"), n: 0 });
      await list.refresh();
      await until(() => list.done && list.rows.length === 3400);
    }""")
    assert rows(IDS) == [f"{n:06}" for n in range(3_399, -1, -1)]


def test_a_list_that_becomes_empty_is_empty(rows: Any) -> None:
    rows("async () => { things.length = 0; await list.refresh(); }")
    assert rows("() => [list.rows.length, list.length, list.done, list.ready]") == [0, 0, True, True]


@pytest.mark.parametrize(
    "trigger, text",
    [
        ({"cron": "0 2 * * *", "timezone": "UTC"}, "0 2 * * *"),
        ({"every": "6h"}, "every 6h"),
        ({"in": "5m"}, "once, after 5m"),
        ({"rrule": "RRULE:FREQ=DAILY"}, "FREQ=DAILY"),
        ({"manual": True}, "started by hand"),
        ({"after": {"job": "load"}}, "after load"),
        ({"after": {"all_of": ["a", "b"]}}, "after a and b"),
        ({"after": {"any_of": ["a", "b"], "on": "failed"}}, "after failure of a or b"),
        ({"moon": "full"}, "moon"),
    ],
)
def test_triggers_in_short(tab: Tab, trigger: dict[str, Any], text: str) -> None:
    assert tab.call("components/trigger-text.js", "triggerText", trigger) == text


def test_a_strip_in_words(tab: Tab) -> None:
    runs = [{"state": "SUCCEEDED"}, {"state": "TIMED_OUT"}, {"state": "SUCCEEDED"}]
    assert tab.call("charts/strip.js", "stripWords", runs) == "3 runs: 2 succeeded, 1 timed out"
    assert tab.call("charts/strip.js", "stripWords", []) == "No runs yet"


def test_runs_are_ordered_as_the_api_lists_them(tab: Tab) -> None:
    order = """async (ids) => {
      const { compareRuns } = await import("/ui/assets/x/pages/runs.js");
      return ids.map((id) => ({ id })).sort(compareRuns).map((one) => one.id);
    }"""
    wanted = ["a@20", "b@9-ff", "b@9-0f", "b@9", "a@9", "a@1"]
    assert tab.page.evaluate(order, sorted(wanted)) == wanted
