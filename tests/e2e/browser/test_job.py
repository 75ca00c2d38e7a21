"""The page of a job: what it shows by itself as things happen, and each of its actions."""

from __future__ import annotations

import json
import shlex
import subprocess
from calendar import SUNDAY, month_name, monthrange
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner
from playwright.sync_api import Locator, Page, expect

from raftsched.cli.main import cli
from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import EVIL, World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
MANUAL: dict[str, Any] = {"trigger": {"manual": True}, "handler": {"shell": "echo done"}}
CRON = {"cron": "30 2 * * *", "timezone": "Europe/Madrid"}
LONG = "while :; do sleep 0.1; done"


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> World:
    return World(cluster)


def opened(world: World, tab: Tab, job: str, query: str = "") -> Page:
    return tab.go(f"/ui/jobs/{world.jobs[job]}{query}")


def row(page: Page, state: str) -> Locator:
    """The rows of the timeline in a state."""
    return page.locator(".timeline-row").filter(has_text=state)


def test_a_run_that_is_asked_for_is_seen_until_it_ends(world: World, tab: Tab) -> None:
    job = world.put("job/asked", {**MANUAL, "params": {"copies": 1}, "handler": {"shell": "echo $RAFTSCHED_PARAMS"}})
    page = opened(world, tab, "job/asked")
    expect(page.get_by_text("There is no run yet.")).to_be_visible()
    page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog")
    params = dialog.get_by_label("Parameters")
    expect(params).to_have_value('{\n  "copies": 1\n}')
    assert not axe.violations(page)
    params.fill('{"copies": 2,}')
    expect(dialog.locator("#run-params-error")).to_contain_text("no JSON")
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog).to_be_visible()
    params.fill('{"copies": 2}')
    dialog.get_by_label("Priority").select_option("9")
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog).to_have_count(0)
    expect(row(page, "succeeded")).to_have_count(1)
    (run,) = world.ask("GET", f"/v1/jobs/{job}/instances")["items"]
    assert (run["params"], run["priority"]) == ({"copies": 2}, 9)
    row(page, "succeeded").click()
    page.wait_for_url(lambda url: "/ui/runs/" in url)


def test_what_others_do_is_shown(world: World, tab: Tab) -> None:
    job = world.put("job/watched", {**MANUAL, "description": "as it was"})
    page = opened(world, tab, "job/watched")
    expect(page.locator(".page-head")).to_contain_text("as it was")
    world.ask("PATCH", f"/v1/jobs/{job}", {"description": "changed elsewhere"}, node=1)
    expect(page.locator(".page-head")).to_contain_text("changed elsewhere")
    world.ask("POST", f"/v1/jobs/{job}/expire", {}, node=2)
    expect(page.locator(".page-head")).to_contain_text("finished")
    expect(page.get_by_role("button", name="Expire")).to_have_count(0)
    expect(page.get_by_role("button", name="Run now")).to_have_count(0)


def test_a_run_is_refused_in_the_words_of_the_api(world: World, tab: Tab) -> None:
    job = world.put("job/refused", MANUAL)
    tab.expects("status of 409")
    page = opened(world, tab, "job/refused")
    page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    world.ask("POST", f"/v1/jobs/{job}/expire", {})
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The job is EXPIRED")


def test_pause_and_resume(world: World, tab: Tab) -> None:
    job = world.put("job/paused", {"trigger": CRON, "handler": {"shell": "true"}})
    page = opened(world, tab, "job/paused", "?tab=schedule")
    head = page.locator(".page-head")
    expect(head).to_contain_text("scheduled")
    head.get_by_role("button", name="Pause").click()
    expect(head).to_contain_text("suspended")
    expect(head.get_by_role("button", name="Skip next")).to_have_count(0)
    expect(page.get_by_role("heading", name="if it were resumed now")).to_be_visible()
    assert world.ask("GET", f"/v1/jobs/{job}")["state"] == "SUSPENDED"
    head.get_by_role("button", name="Resume").click()
    expect(head).to_contain_text("scheduled")
    expect(page.get_by_role("heading", name="Next times", exact=True)).to_be_visible()


def test_skipping_says_which_time_it_is(world: World, tab: Tab) -> None:
    job = world.put("job/skipped", {"trigger": CRON, "handler": {"shell": "true"}})
    first, second = (one["at"] for one in world.ask("GET", f"/v1/jobs/{job}/next?count=2")["next"])
    page = opened(world, tab, "job/skipped")
    page.get_by_role("button", name="Skip next").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"{first[:10]} 02:30:00 Europe/Madrid")
    expect(dialog).to_contain_text(f"{second[:10]} 02:30:00 Europe/Madrid")
    dialog.get_by_role("button", name="Skip it").click()
    expect(dialog).to_have_count(0)
    expect(page.locator("main .facts").first).to_contain_text(f"{second[:10]} 02:30:00 Europe/Madrid")


def test_a_backfill_shows_its_times_first(world: World, tab: Tab) -> None:
    job = world.put("job/back", {"trigger": {"cron": "0 * * * *"}, "handler": {"shell": "true"}, "suspended": True})
    tab.expects("status of 422")  # of the times until now, where it takes long until the second field is filled
    page = opened(world, tab, "job/back")
    page.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2026-01-05T00:00:00")
    dialog.get_by_label("To before").fill("2026-01-05T03:00:00")  # in Berlin: an hour before UTC
    make = dialog.get_by_role("button", name="Make 3 runs")
    expect(make).to_be_enabled()
    expect(dialog.get_by_role("listitem")).to_have_text(
        ["2026-01-04 23:00:00", "2026-01-05 00:00:00", "2026-01-05 01:00:00"]
    )
    assert not world.ask("GET", f"/v1/jobs/{job}/instances")["items"], "nothing was done yet"
    assert not axe.violations(page)
    make.click()
    expect(dialog).to_have_count(0)
    expect(row(page, "succeeded")).to_have_count(3)


def test_a_backfill_that_is_refused_says_why(world: World, tab: Tab) -> None:
    world.put("job/much", {"trigger": {"cron": "* * * * *"}, "handler": {"shell": "true"}, "suspended": True})
    tab.expects("status of 422")
    page = opened(world, tab, "job/much")
    page.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2026-01-05T00:00:00")
    expect(dialog.get_by_role("alert")).to_contain_text("at most 1,000 are allowed")
    expect(dialog.get_by_role("button", name="Make runs")).to_be_disabled()


def test_expiring_may_end_what_runs(world: World, tab: Tab) -> None:
    world.put("job/over", {**MANUAL, "handler": {"shell": LONG}})
    world.until(world.run("job/over"), "RUNNING")
    page = opened(world, tab, "job/over")
    expect(row(page, "running")).to_have_count(1)
    page.get_by_role("button", name="Expire").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Also end the 1 run that is active").check()
    dialog.get_by_role("button", name="Expire").click()
    expect(row(page, "killed")).to_have_count(1)
    expect(page.locator(".page-head")).to_contain_text("finished")


def test_deleting_a_job_with_active_runs_asks_for_its_name(world: World, open_tab: Opens) -> None:
    world.put("job/gone", {**MANUAL, "handler": {"shell": LONG}})
    world.until(world.run("job/gone"), "RUNNING")
    tab, other = open_tab(), open_tab()
    for one in (tab, other):
        one.expects("status of 404")
    watching = opened(world, other, "job/gone")
    page = opened(world, tab, "job/gone")
    expect(row(page, "running")).to_have_count(1)
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 run that is active will be ended")
    dialog.get_by_label("to confirm").fill("wrong")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_be_visible()
    dialog.get_by_label("to confirm").fill("gone")
    dialog.get_by_role("button", name="Delete").click()
    page.wait_for_url(lambda url: url.endswith("/ui/jobs"))
    expect(watching.get_by_text("This job was deleted.")).to_be_visible()


def test_a_job_that_is_not_there_and_one_that_is_named(world: World, tab: Tab) -> None:
    job = world.put("job/named", MANUAL)
    tab.expects("status of 404")
    page = tab.go("/ui/jobs/job%2Fnamed?tab=content")
    page.wait_for_url(lambda url: url.endswith(f"/ui/jobs/{job}?tab=content"))
    expect(page.get_by_role("tab", name="Content")).to_have_attribute("aria-selected", "true")
    page = tab.go("/ui/jobs/job%2Fnobody")
    expect(page.get_by_text("There is no such job.")).to_be_visible()


def test_runs_are_filtered_by_state_in_the_address(world: World, tab: Tab) -> None:
    world.put("job/mixed", {**MANUAL, "handler": {"shell": 'test "$RAFTSCHED_PARAMS" = "{}"'}})
    world.until(world.run("job/mixed"), "SUCCEEDED")
    world.until(world.run("job/mixed", params={"bad": 1}), "FAILED")
    page = opened(world, tab, "job/mixed")
    listed = page.locator("rs-job-runs tbody tr")
    expect(listed).to_have_count(2)
    page.get_by_label("State").select_option("FAILED")
    expect(listed).to_have_count(1)
    expect(listed).to_contain_text("exit code 1")
    assert "state=FAILED" in page.url
    page.reload()
    expect(listed).to_have_count(1)
    world.run("job/mixed", params={"bad": 2})
    expect(listed).to_have_count(2)


def test_revisions_say_what_changed(world: World, tab: Tab) -> None:
    job = world.put("job/edited", {**MANUAL, "timeout": "1m"})
    page = opened(world, tab, "job/edited", "?tab=revisions")
    expect(page.get_by_text("It was never edited.")).to_be_visible()
    world.ask("PATCH", f"/v1/jobs/{job}", {"timeout": "2m", "labels": {"a": "b"}})
    changes = page.locator(".diff")
    expect(changes).to_contain_text('− "1m"')
    expect(changes).to_contain_text('+ "2m"')
    expect(page.get_by_role("cell", name="timeout, labels")).to_be_visible()
    world.ask("PATCH", f"/v1/jobs/{job}", {"handler": {"shell": "echo one\necho two"}})
    expect(page.get_by_role("heading", name="From revision 2 to 3")).to_be_visible()
    page.get_by_label("to revision 2").check()
    expect(page.get_by_text("They say the same.")).to_be_visible()
    page.get_by_label("from revision 1").check()
    expect(page.get_by_role("heading", name="From revision 1 to 2")).to_be_visible()
    assert "compare=1..2" in page.url


def test_the_times_of_a_schedule(world: World, tab: Tab) -> None:
    job = world.put("job/due", {"trigger": {"cron": "0 9 * * *", "timezone": "Asia/Tokyo"}, "handler": {"shell": ":"}})
    page = opened(world, tab, "job/due", "?tab=schedule")
    said = world.ask("GET", f"/v1/jobs/{job}/next?count=10")
    expect(page.get_by_text(said["description"]).first).to_be_visible()
    times = page.get_by_role("region", name="Next times").locator("tbody tr")
    expect(times).to_have_count(10)
    expect(times.first).to_contain_text("09:00")
    here = datetime.fromisoformat(said["next"][0]["at"]).astimezone(ZoneInfo("Europe/Berlin"))
    expect(times.first).to_contain_text(f"{here:%H:%M}")  # 01:00, and 02:00 in summer
    month = page.locator(".month")
    shown = datetime.strptime(month.locator(".month-head strong").inner_text(), "%B %Y")
    page.get_by_role("button", name="The next month").click()
    first = (shown + timedelta(days=32)).replace(day=1)
    days = monthrange(first.year, first.month)[1]
    expect(month.locator(".month-head")).to_contain_text(f"{month_name[first.month]} {first.year} · {days} times")
    expect(month.locator("td .due")).to_have_count(days)


def test_a_night_without_the_hour_is_noted(world: World, tab: Tab) -> None:
    year = datetime.now(UTC).year + 1
    night = max(date(year, 3, day) for day in range(25, 32) if date(year, 3, day).weekday() == SUNDAY)
    trigger = {**CRON, "starts_at": f"{night - timedelta(days=1)}T00:00:00Z"}
    world.put("job/night", {"trigger": trigger, "handler": {"shell": "true"}})
    page = opened(world, tab, "job/night", "?tab=schedule")
    note = page.get_by_role("tabpanel").locator(".warning")
    expect(note).to_have_text("DST: 02:30 does not exist on this day; runs at 03:00")


def test_what_holds_a_run_up_is_said(world: World, tab: Tab) -> None:
    conditions = [{"job_succeeded": "job/never", "within": "1h"}]
    world.put("job/held", {**MANUAL, "conditions": conditions})
    world.until(world.run("job/held"), "WAITING")
    page = opened(world, tab, "job/held")
    expect(page.get_by_role("tabpanel").locator(".warning")).to_contain_text("job/never")
    expect(row(page, "waiting").locator(".wait-conditions")).to_have_count(1)


LINES: dict[str, dict[str, Any]] = {
    "cron": {
        "trigger": {"cron": "*/5 2 * * 1-5", "timezone": "Europe/Madrid", "jitter": "10s", "max_runs": 9},
        "handler": {"exec": ["sh", "-c", "echo 'it''s' \"$HOME\"; exit 0", ""], "env": {"A": "1 2"}, "cwd": "/tmp"},
        "labels": {"team": "fin & co", "a.b/c": "x=y"},
        "retry": {"delays": ["1s", "5s"], "jitter_percent": 10, "on": ["failed"]},
        "overlap": "queue_one",
        "priority": 7,
        "timeout": "90s",
        "description": "Don't \\ break `this` $HOME\nor that",
    },
    "fixed": {
        "trigger": {"every": "1h", "mode": "fixed_delay"},
        "handler": {"http": {"url": "http://127.0.0.1:9/x?a=1&b=2", "method": "POST", "headers": {"X-A": "b"}}},
        "conditions": [{"path": "/tmp/*.csv"}, {"job_succeeded": "job/cron", "within": "2h"}],
        "retention": {"succeeded": 5, "failed": 5, "max_age": "1d"},
        "max_concurrency": 1,
    },
    "rule": {
        "trigger": {"rrule": "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", "timezone": "America/New_York"},
        "handler": {"python": "raftsched.samples:greet", "fresh": True},
        "params": {"name": "O'Neil", "deep": {"list": [1, None, "2"]}},
        "misfire": {"policy": "all", "grace": "1h"},
        "placement": {"labels": {"disk": "ssd"}},
        "owner": "ana",
    },
    "asked": {**MANUAL, "handler": {"shell": "echo '$(rm -rf nothing)' \"quoted\" \\"}},
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("kind", ["curl", "command"])
def test_the_lines_create_the_same_job(name: str, kind: str, world: World, tab: Tab) -> None:
    """As a shell reads them."""
    job = world.put(f"lines/{name}", LINES[name])
    page = opened(world, tab, f"lines/{name}", "?tab=content")
    title = {"curl": "With curl", "command": "On the command line"}[kind]
    card = page.locator("section.card").filter(has=page.get_by_role("heading", name=title))
    card.get_by_role("button").click()
    line = page.evaluate("navigator.clipboard.readText()")
    content = world.ask("GET", f"/v1/jobs/{job}/revisions")["items"][0]["content"]
    world.ask("DELETE", f"/v1/jobs/{job}")
    if kind == "curl":
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True)
        made = json.loads(done.stdout)
    else:
        words = shlex.split(line)
        assert words.pop(0) == "raftsched"
        result = CliRunner().invoke(cli, ["--server", tab.nodes[0].url, *words])
        assert result.exit_code == 0, result.output
        made = world.ask("GET", f"/v1/namespaces/lines/jobs/{name}")
    again = world.ask("GET", f"/v1/jobs/{made['id']}/revisions")["items"][0]["content"]
    assert again == content
    world.ask("DELETE", f"/v1/jobs/{made['id']}")


def test_what_people_write_is_text(world: World, tab: Tab) -> None:
    evil = {**MANUAL, "description": EVIL, "owner": EVIL[:64], "labels": {"<b>": "<i>x</i>"}, "params": {"p": EVIL}}
    world.put("job/evil", {**evil, "handler": {"shell": f"echo '{EVIL[:20]}' >&2; exit 3"}})
    world.ask("PATCH", f"/v1/jobs/{world.jobs['job/evil']}", {"description": f"{EVIL}\n{EVIL}"})
    world.until(world.run("job/evil"), "FAILED")
    for query in ("", "?tab=schedule", "?tab=content", "?tab=revisions"):
        page = opened(world, tab, "job/evil", query)
        expect(page.locator(".job-below")).to_contain_text("<script>")
        expect(page.get_by_role("tabpanel")).not_to_contain_text("Loading")
        assert page.locator("main script, main img, main b, main i").count() == 0
        assert page.title() == "evil · raftsched"


def test_the_charts_are_for_the_keyboard_too(world: World, tab: Tab) -> None:
    world.put("job/keys", {**MANUAL, "overlap": "queue_all"})
    for _ in range(3):
        world.until(world.run("job/keys"), "SUCCEEDED")
    page = opened(world, tab, "job/keys")
    points = page.locator(".scatter").first.locator("a")
    expect(points).to_have_count(3)
    expect(page.locator('.scatter a[tabindex="0"]')).to_have_count(1)
    points.last.focus()
    page.keyboard.press("ArrowLeft")
    expect(points.nth(1)).to_be_focused()
    page.keyboard.press("Home")
    expect(points.first).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/ui/runs/" in url)


def test_a_long_history_comes_in_pieces(world: World, tab: Tab) -> None:
    job = world.put(
        "job/many",
        {"trigger": {"cron": "* * * * *"}, "handler": {"exec": ["true"]}, "overlap": "allow", "suspended": True},
    )
    body = {"from": "2026-01-05T00:00:00Z", "to": "2026-01-05T02:20:00Z"}
    assert world.ask("POST", f"/v1/jobs/{job}/backfill", body)["count"] == 140
    page = opened(world, tab, "job/many")
    listed = page.locator("rs-job-runs tbody tr")
    expect(listed).to_have_count(25)
    expect(row(page, "succeeded")).to_have_count(20)
    page.get_by_role("button", name="More").click()
    expect(listed).to_have_count(125)
    page.get_by_role("button", name="More").click()
    expect(listed).to_have_count(140)
    expect(page.get_by_role("button", name="More")).to_have_count(0)


def test_what_follows_what_is_drawn_and_its_workflow_shown(world: World, tab: Tab) -> None:
    world.put("job/extract", MANUAL)
    for name, after in (
        ("load", {"job": "extract"}),
        ("check", {"job": "extract", "on": "ended"}),
        ("publish", {"all_of": ["load", "check", "nowhere"]}),
    ):
        world.put(f"job/{name}", {"trigger": {"after": after}, "handler": {"shell": "true"}})
    page = opened(world, tab, "job/extract", "?tab=graph")
    graph = page.get_by_role("group", name="Graph of jobs")
    expect(graph.get_by_role("link")).to_have_count(4)
    assert [(box.get_attribute("aria-label") or "").split(":")[0] for box in graph.get_by_role("link").all()] == [
        f"job/{name}" for name in ("extract", "load", "check", "publish")
    ]
    expect(graph.locator(".graph-line")).to_have_count(5)
    expect(graph.locator(".graph-box.is-off")).to_have_count(1)  # of the one that does not exist
    expect(page.get_by_role("main")).to_contain_text("job/load, job/check (has ended)")
    assert not axe.violations(page)
    graph.get_by_role("link", name="job/publish").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("publish")
    expect(page.get_by_role("main")).to_contain_text("job/nowhere, which does not exist")
    run = world.run("job/extract")
    page = tab.go(f"/ui/runs/{run}")
    runs = page.get_by_role("table", name="Runs of the workflow").locator("tbody tr")
    expect(runs).to_have_count(3)
    expect(page.get_by_text("✓ succeeded 3 succeeded")).to_be_visible()  # a run may have succeeded on n3, too
    expect(page.get_by_role("button", name="Rerun downstream")).to_be_visible()
    expect(page.get_by_role("button", name="Kill the workflow")).to_have_count(0)  # it is over
    runs.filter(has_text="check").get_by_role("link").click()
    expect(page.get_by_role("main")).to_contain_text("Started by")
    assert not axe.violations(page)
