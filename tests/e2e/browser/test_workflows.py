"""Workflows: their list, the page of one with its graph and its chart of time; comparing runs; a year of a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> World:
    return World(cluster)


def chain(world: World, namespace: str, *, last: str = "true") -> str:
    """Makes a chain of three jobs, and returns the id of a run of the first."""
    world.put(f"{namespace}/one", {"trigger": {"manual": True}, "handler": {"shell": "echo one"}})
    world.put(f"{namespace}/two", {"trigger": {"after": {"job": "one"}}, "handler": {"shell": "echo two"}})
    world.put(f"{namespace}/three", {"trigger": {"after": {"job": "two"}}, "handler": {"shell": last}})
    return world.run(f"{namespace}/one")


def state_of(world: World, root: str) -> tuple[str, int]:
    found = world.ask("GET", f"/v1/workflows/{root}")
    return found["state"], len(found["items"])


def ended(world: World, root: str, state: str) -> None:
    world.cluster.wait(f"the workflow {root} to be {state}", lambda: state_of(world, root) == (state, 3))


def test_workflows_are_listed_filtered_and_opened(world: World, tab: Tab) -> None:
    failed, good = chain(world, "etl", last="exit 1"), chain(world, "shop")
    ended(world, failed, "failed")
    ended(world, good, "succeeded")
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    page = tab.go("/ui/workflows")
    rows = page.locator(".grid-body [role=row]:not([hidden])")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="etl")).to_contain_text("3 of 3 ended")
    expect(rows.filter(has_text="etl")).to_contain_text("2 succeeded, 1 failed")
    expect(rows.filter(has_text="etl").locator(".col-took")).to_contain_text("s")
    assert not [url for url in asked if "/v1/workflows/" in url]  # the list says it
    page.get_by_label("State", exact=True).select_option("failed")
    expect(rows).to_have_count(1)
    assert page.url.endswith("?state=failed")
    page.get_by_role("link", name="one").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("etl/one")
    expect(page.get_by_role("heading", level=1)).to_contain_text("failed")


def test_a_graph_shows_each_state_in_words_and_leads_to_the_run(world: World, tab: Tab) -> None:
    root = chain(world, "graph", last="exit 1")
    ended(world, root, "failed")
    page = tab.go(f"/ui/workflows/{root}")
    boxes = page.locator("rs-graph svg a")
    expect(boxes).to_have_count(3)
    expect(boxes.last).to_contain_text("✕ failed")
    expect(boxes.last.locator("text").first).to_have_text("three")  # the namespace is that of all
    expect(page.locator(".timeline-row")).to_have_count(3)
    assert "failed" in (page.locator(".timeline-bar").last.get_attribute("aria-label") or "")
    table = page.get_by_role("region", name="Runs of the workflow")
    expect(table.locator("tbody tr")).to_have_count(3)
    assert not axe.violations(page)
    boxes.last.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Run of three")
    expect(page.locator("rs-graph .is-here")).to_have_count(1)
    page.get_by_role("link", name="Open the workflow").click()
    expect(page).to_have_url(f"{world.cluster.nodes[0].url}/ui/workflows/{root.replace('@', '%40')}")


def test_a_workflow_that_runs_is_live_and_can_be_killed(world: World, tab: Tab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    root = chain(world, "live", last=f"while [ ! -e {gate} ]; do sleep 0.05; done")
    page = tab.go(f"/ui/workflows/{root}")
    expect(page.locator("rs-graph")).to_contain_text("▶ running")
    expect(page.locator(".now-line").first).to_be_attached()
    gate.touch()
    expect(page.get_by_role("heading", level=1)).to_contain_text("succeeded")
    expect(page.locator(".now-line")).to_have_count(0)
    gate.unlink()
    other = world.run("live/one")
    page = tab.go(f"/ui/workflows/{other}")
    expect(page.locator("rs-graph")).to_contain_text("▶ running")
    page.get_by_role("button", name="Kill", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Kill", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("killed")


def test_what_failed_is_run_again_with_what_follows(world: World, tab: Tab, tmp_path: Path) -> None:
    good = tmp_path / "good"
    root = chain(world, "again", last=f"test -e {good}")
    ended(world, root, "failed")
    good.touch()
    page = tab.go(f"/ui/workflows/{root}")
    page.get_by_role("button", name="Rerun failed").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Rerun 1 failed run?")
    expect(dialog).to_contain_text("again/three")
    dialog.get_by_role("button", name="Rerun failed").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("succeeded")
    page.get_by_role("button", name="Rerun again/two and downstream").click()
    page.get_by_role("dialog").get_by_role("button", name="Rerun", exact=True).click()
    world.cluster.wait(
        "two to be run again",
        lambda: [one["attempt"] for one in world.ask("GET", f"/v1/workflows/{root}")["items"]] == [1, 2, 3],
    )


def test_two_runs_are_compared_from_the_page_of_one(world: World, tab: Tab) -> None:
    body = {"trigger": {"manual": True}, "handler": {"shell": 'echo "start"; echo "$RAFTSCHED_PARAMS"; echo "end"'}}
    world.put("comparing/report", body)
    first, second = "", ""
    for month in ("may", "june"):
        first, second = second, world.run("comparing/report", params={"month": month, "year": 2026})
        world.until(second, "SUCCEEDED")
    page = tab.go(f"/ui/runs/{second}")
    page.get_by_role("link", name="the run before").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Two runs of report")
    assert first.replace("@", "%40") in page.url
    expect(page.locator("main")).to_contain_text("month")
    expect(page.locator(".diff .line-removed")).to_have_text('- "may"')
    expect(page.locator(".diff .line-added")).to_have_text('+ "june"')
    lines = page.locator(".diff-lines .line")
    expect(lines.filter(has_text="may")).to_have_class("line line-removed")
    expect(lines.filter(has_text="june")).to_have_class("line line-added")
    expect(lines.filter(has_text="start")).to_have_class("line line-same")
    assert not axe.violations(page)
    tab.go(f"/ui/compare?a=good&b={first}")
    expect(page.locator("main")).to_contain_text("No earlier run that succeeded is kept.")


def test_a_year_of_a_job_shows_its_days_and_since_when_they_are_known(world: World, tab: Tab) -> None:
    job = world.put("year/mixed", {"trigger": {"manual": True}, "handler": {"shell": "exit $RAFTSCHED_PARAM_CODE"}})
    world.put("year/bad", {"trigger": {"manual": True}, "handler": {"shell": "exit 1"}})
    run = world.run("year/bad")
    world.until(run, "FAILED")
    page = tab.go(f"/ui/jobs/{world.jobs['year/bad']}")
    page.get_by_role("tab", name="Year").click()
    day = page.locator("a.year-day")
    expect(day).to_have_count(1)
    expect(day).to_have_class("year-day day-bad year-today")
    assert "1 failed" in (day.get_attribute("aria-label") or "")
    expect(page.locator("main")).to_contain_text("Known since")
    expect(page.get_by_role("region", name="Outcomes by day").locator("tbody tr")).to_have_count(1)
    assert not axe.violations(page)
    again = world.run("year/bad")
    world.until(again, "FAILED")
    expect(page.get_by_role("region", name="Outcomes by day")).to_contain_text("2 failed")  # by itself
    day.click()
    expect(page.locator(".grid-body [role=row]:not([hidden])")).to_have_count(2)
    page = tab.go(f"/ui/jobs/{job}?tab=year")
    expect(page.locator("main")).to_contain_text("No run of it is kept.")
