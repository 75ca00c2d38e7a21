"""The page of one job: each thing that can be done to it, and what it shows."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e
HOURLY = {"trigger": {"cron": "15 * * * *", "timezone": "Europe/Madrid"}, "handler": {"shell": "echo ran"}}
MANUAL = {"trigger": {"manual": True}, "handler": {"shell": 'echo "$RAFTSCHED_PARAMS"'}, "params": {"day": "monday"}}


@pytest.fixture(scope="module")
def world(cluster: Cluster) -> World:
    return World(cluster)


def opened(tab: Tab, world: World, name: str, body: dict[str, Any], query: str = "") -> str:
    """The path of a new job's page, which is shown when this returns."""
    path = f"/ui/jobs/{world.put(f'acts/{name}', body)}"
    page = tab.go(path + query)
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    return path


def test_pause_and_resume_show_by_themselves(world: World, tab: Tab) -> None:
    opened(tab, world, "pausing", HOURLY)
    page = tab.page
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".page-head")).to_contain_text("suspended")
    expect(page.get_by_role("button", name="Pause")).to_have_count(0)
    assert world.ask("GET", "/v1/namespaces/acts/jobs/pausing")["state"] == "SUSPENDED"
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".page-head")).to_contain_text("scheduled")


def test_what_others_change_is_shown(world: World, tab: Tab) -> None:
    opened(tab, world, "watched", HOURLY)
    page = tab.page
    world.ask("PATCH", "/v1/namespaces/acts/jobs/watched", {"description": "changed elsewhere"}, node=1)
    expect(page.locator(".page-head")).to_contain_text("changed elsewhere")
    world.run("acts/watched")
    expect(page.get_by_role("tabpanel")).to_contain_text("1 run")
    expect(page.get_by_role("tabpanel")).to_contain_text("succeeded")
    world.ask("DELETE", "/v1/namespaces/acts/jobs/watched")
    tab.expects("status of 404")
    expect(page.locator("main")).to_contain_text("deleted")


def test_run_now_takes_parameters_and_refuses_what_is_none(world: World, tab: Tab) -> None:
    opened(tab, world, "running", MANUAL)
    page = tab.page
    page.get_by_role("button", name="Run now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Parameters")).to_have_value('{\n  "day": "monday"\n}')
    assert not axe.violations(page)
    dialog.get_by_label("Parameters").fill("[1]")
    expect(dialog).to_contain_text("Parameters are an object")
    dialog.get_by_label("Parameters").fill('{"day": "sunday"}')
    dialog.get_by_role("button", name="Run now").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("tabpanel")).to_contain_text("succeeded")
    (run,) = world.ask("GET", f"/v1/jobs/{world.jobs['acts/running']}/instances")["items"]
    assert run["params"] == {"day": "sunday"}
    page.get_by_role("tabpanel").get_by_role("table").get_by_role("link").first.click()
    page.wait_for_url(lambda url: "/ui/runs/" in url)


def test_skip_next_says_which_and_leaves_it_out(world: World, tab: Tab) -> None:
    opened(tab, world, "skipping", HOURLY)
    page = tab.page
    before = world.ask("GET", "/v1/namespaces/acts/jobs/skipping")["next_fire_at"]
    page.get_by_role("button", name="Skip next").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Europe/Madrid")
    dialog.get_by_role("button", name="Skip it").click()
    expect(dialog).to_have_count(0)
    world.cluster.wait(
        "the next time to be another one",
        lambda: world.ask("GET", "/v1/namespaces/acts/jobs/skipping")["next_fire_at"] != before,
    )


def test_backfill_shows_the_times_before_it_makes_their_runs(world: World, tab: Tab) -> None:
    opened(tab, world, "backfilled", HOURLY)
    page = tab.page
    page.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("24 times")
    assert not axe.violations(page)
    dialog.get_by_role("button", name="Make 24 runs").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("tabpanel")).to_contain_text("24 runs")


def test_expire_and_delete_ask_first(world: World, tab: Tab) -> None:
    opened(tab, world, "ending", HOURLY)
    page = tab.page
    page.get_by_role("button", name="Expire").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Expire").click()
    dialog.get_by_role("button", name="Expire").click()
    expect(page.locator(".page-head")).to_contain_text("expired")
    tab.expects("status of 404")
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert world.cluster.leader().request("GET", "/v1/namespaces/acts/jobs/ending").status == 404


def test_a_refusal_is_shown_in_the_words_of_the_api(world: World, tab: Tab) -> None:
    opened(tab, world, "refused", HOURLY)
    page = tab.page
    tab.expects("status of 4(09|22)")
    page.get_by_role("button", name="Backfill").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("From").fill("2001-01-01T00:00:00")
    expect(dialog.get_by_role("alert")).to_contain_text("1,000")
    expect(dialog.get_by_role("button", name="Make runs")).to_be_disabled()


def test_the_schedule_says_when_in_words_times_and_days(world: World, tab: Tab) -> None:
    trigger = {"cron": "30 2 * * *", "timezone": "Europe/Madrid", "starts_at": "2027-03-27T00:00:00Z"}
    path = opened(tab, world, "night", {**HOURLY, "trigger": trigger}, "?tab=schedule")
    panel = tab.page.get_by_role("tabpanel")
    expect(panel).to_contain_text("02:30")
    expect(panel).to_contain_text("2027-03-2")
    expect(panel.locator(".warning").first).to_be_visible()  # the night without 02:30
    tab.page.get_by_role("tab", name="Revisions").click()
    assert tab.page.url.endswith(f"{path}?tab=revisions")
    assert not axe.violations(tab.page)


def test_revisions_are_compared(world: World, tab: Tab) -> None:
    opened(tab, world, "revised", HOURLY)
    world.ask("PATCH", "/v1/namespaces/acts/jobs/revised", {"timeout": "7m", "owner": "ana"})
    page = tab.go(f"/ui/jobs/{world.jobs['acts/revised']}?tab=revisions")
    expect(page.get_by_role("tabpanel")).to_contain_text("7m")
    expect(page.get_by_role("tabpanel")).to_contain_text("ana")
    assert not axe.violations(page)


def test_a_name_leads_to_the_job_and_an_unknown_one_says_so(world: World, tab: Tab) -> None:
    path = opened(tab, world, "named", HOURLY)
    page = tab.go("/ui/jobs/acts%2Fnamed")
    page.wait_for_url(f"**{path}")
    tab.expects("status of 404")
    page = tab.go("/ui/jobs/0000000000000")
    expect(page.locator("main")).to_contain_text("There is no such job")
