"""The overview and the cluster: what happens is seen, and what is done there is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from raftsched.store import backup
from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
JOBS = "/v1/namespaces/seen/jobs"


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> World:
    made = World(cluster)
    made.ask("PUT", "/v1/queues/shut", {"paused": True})
    manual = {"trigger": {"manual": True}}
    made.ask("PUT", f"{JOBS}/quick", {**manual, "handler": {"shell": "true"}})
    made.ask("PUT", f"{JOBS}/shut", {**manual, "handler": {"shell": "true"}, "queue": "shut"})
    made.ask("POST", f"{JOBS}/shut/run", {})
    return made


def test_a_run_is_counted_before_one_looks_again(world: World, tab: Tab) -> None:
    page = tab.go("/ui/?namespace=seen")
    row = page.get_by_role("group", name="Succeeded: ")
    expect(row).to_be_visible()
    before = row.locator("a").count()
    world.ask("POST", f"{JOBS}/quick/run", {})
    expect(row.locator("a")).not_to_have_count(before)
    row.locator("a").last.focus()
    expect(page.locator(".heat-words")).to_contain_text("1 succeeded")
    page.keyboard.press("ArrowUp")
    expect(page.locator(".heat-words")).to_contain_text("1 started")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/runs?from=*")
    assert "namespace=seen" in page.url


def test_what_waits_says_why(world: World, tab: Tab) -> None:
    page = tab.go("/ui/")
    waiting = page.locator(".card", has=page.get_by_role("heading", name="Waiting"))
    expect(waiting).to_contain_text('Its queue "shut" is paused.')
    expect(waiting.get_by_role("link", name="Queue shut")).to_have_attribute("href", "/ui/queues/shut")


def test_the_cluster_is_paused_and_resumed_and_a_node_drained(world: World, tab: Tab) -> None:
    page = tab.go("/ui/cluster")
    page.get_by_role("button", name="Pause …").click()
    assert not axe.violations(page)
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator(".troubles")).to_contain_text("The cluster is paused")
    assert world.ask("GET", "/v1/cluster")["paused"]
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".troubles")).to_have_count(0)
    page.get_by_role("button", name="Drain n2").click()
    expect(page.locator(".troubles")).to_contain_text("n2 is drained")
    page.get_by_role("button", name="Undrain n2").click()
    expect(page.locator(".troubles")).to_have_count(0)


def test_leadership_is_handed_over(world: World, tab: Tab) -> None:
    page = tab.go("/ui/cluster")
    leaders = page.get_by_role("region", name="Leaderships, the newest first").locator("tbody tr")
    expect(leaders.first).to_contain_text("now")
    count = leaders.count()
    page.get_by_role("button", name="Lead n").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Hand over").click()
    expect(leaders).to_have_count(count + 1)
    expect(leaders.first).to_contain_text("now")


def test_a_backup_is_downloaded_whole(world: World, tab: Tab, tmp_path: Path) -> None:
    page = tab.go("/ui/cluster")
    page.evaluate("delete window.showSaveFilePicker")  # its dialog is the system's
    expect(page.get_by_role("button", name="Download a backup")).to_be_visible()
    with page.expect_download() as begun:
        page.get_by_role("button", name="Download a backup").click()
    begun.value.save_as(tmp_path / "backup")
    assert backup.verify(tmp_path / "backup")


def test_settings_are_checked_at_their_fields_and_saved_together(world: World, tab: Tab) -> None:
    tab.expects("status of 422")
    page = tab.go("/ui/cluster/settings")
    page.locator("#setting-backfill_max").fill("0")
    page.locator("#setting-timeout_ceiling").fill("2h")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#setting-backfill_max")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".field .error")).to_contain_text("from 1 to 10,000")
    assert not axe.violations(page)
    assert world.ask("GET", "/v1/cluster/settings")["timeout_ceiling"] == "1d", "all of them or none"
    page.locator("#setting-backfill_max").fill("900")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".save-bar")).to_have_count(0)
    found = world.ask("GET", "/v1/cluster/settings")
    assert (found["backfill_max"], found["timeout_ceiling"]) == (900, "2h")
    world.ask("PATCH", "/v1/cluster/settings", {"backfill_max": None})
    expect(page.locator("#setting-backfill_max")).to_have_value("1000")
    page.get_by_role("button", name="Default of timeout_ceiling").click()
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_role("dialog")).to_contain_text("Leave without saving?")
    page.get_by_role("dialog").get_by_role("button", name="Leave").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
