"""The long lists of jobs and of runs: what they hold, how they are searched, moved in, kept live and acted on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.e2e.browser.world import World
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
JOBS = 2_500  # more than a page of the API
MANUAL: dict[str, Any] = {"trigger": {"manual": True}, "handler": {"shell": "echo done"}}


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> World:
    found = World(cluster)
    for start in range(0, JOBS, 500):
        some = [
            {
                **MANUAL,
                "namespace": "many",
                "name": f"job-{n:05}",
                "owner": f"owner-{n % 5}",
                "labels": {"part": str(n % 2)},
            }
            for n in range(start, start + 500)
        ]
        found.ask("POST", "/v1/jobs:batch", some)
    found.put("few/alpha", MANUAL)
    found.put("few/beta", {**MANUAL, "owner": "ana"})
    for node in cluster.nodes:
        node.get("/v1/jobs?limit=1&consistency=leader")
    return found


def names(page: Page) -> Locator:
    return page.locator(".grid-body .col-name a")


def name_of_active(page: Page) -> str:
    """The row that the grid says is meant."""
    told = page.locator(".grid-list").get_attribute("aria-activedescendant")
    return page.locator(f"#{told} .col-name a").inner_text()


def test_only_rows_on_the_screen_are_elements_and_all_can_be_reached(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs?namespace=many")
    expect(page.get_by_text(f"{JOBS:,} jobs", exact=True)).to_be_visible()
    expect(names(page).first).to_have_text(f"job-{JOBS - 1:05}")
    grid = page.locator(".grid-list")
    expect(grid).to_have_attribute("aria-rowcount", str(JOBS + 1))
    assert page.locator(".grid-body [role=row]").count() < 80
    grid.focus()
    keys = {
        "ArrowDown": JOBS - 1,
        "j": JOBS - 2,
        "J": JOBS - 2,
        "k": JOBS - 1,
        "End": 0,
        "ArrowUp": 1,
        "Home": JOBS - 1,
    }
    for key, wanted in keys.items():
        page.keyboard.press(key)
        expect(page.locator(".grid-row.active .col-name a")).to_have_text(f"job-{wanted:05}")
        assert name_of_active(page) == f"job-{wanted:05}"
    page.keyboard.press("PageDown")
    expect(page.locator(".grid-row.active .col-name a")).not_to_have_text(f"job-{JOBS - 1:05}")
    assert name_of_active(page) < f"job-{JOBS - 4:05}"
    name = name_of_active(page)
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/ui/jobs/" in url)
    expect(page.locator("h1")).to_contain_text(name)
    page.go_back()
    expect(names(page).first).to_be_visible()


def test_a_search_as_one_types_and_filters_are_in_the_address(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs")
    page.keyboard.press("/")
    page.keyboard.type("many/job-0012")
    expect(page.get_by_text("10 jobs", exact=True)).to_be_visible()
    expect(names(page)).to_have_text([f"job-0012{n}" for n in range(9, -1, -1)])
    page.wait_for_url(re.compile(r"q=many%2Fjob-0012"))
    page.get_by_label("Owner").fill("owner-0")
    page.get_by_label("Owner").press("Enter")
    expect(names(page)).to_have_text(["job-00125", "job-00120"])
    page.get_by_label("Label").fill("part=0")
    page.get_by_label("Label").press("Enter")
    expect(names(page)).to_have_text(["job-00120"])
    page.go_back()
    expect(names(page)).to_have_text(["job-00125", "job-00120"])
    page.go_forward()
    expect(names(page)).to_have_text(["job-00120"])
    page.reload()
    expect(names(page)).to_have_text(["job-00120"])
    expect(page.get_by_role("searchbox")).to_have_value("many/job-0012")


def test_a_wrong_filter_is_told_in_the_words_of_the_api(world: World, tab: Tab) -> None:
    tab.expects("status of 400")
    page = tab.go("/ui/jobs?label=nothing")
    expect(page.get_by_role("alert")).to_contain_text("must be key=value")


def test_nothing_that_matches_says_what_to_do(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs?q=no-such-job")
    expect(page.get_by_text("No job matches")).to_be_visible()
    page.get_by_role("link", name="Show all jobs").click()
    expect(page.get_by_role("searchbox")).to_have_value("")
    expect(names(page).first).to_be_visible()


def test_the_list_shows_changes_by_itself(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs?namespace=few")
    expect(names(page)).to_have_text(["beta", "alpha"])
    world.put("few/gamma", MANUAL)
    expect(names(page)).to_have_text(["gamma", "beta", "alpha"])
    world.ask("POST", f"/v1/jobs/{world.jobs['few/beta']}/pause")
    row = page.locator(".grid-body [role=row]").filter(has_text="beta")
    expect(row).to_contain_text("suspended")
    world.ask("POST", f"/v1/jobs/{world.jobs['few/gamma']}/run", {})
    strip = page.locator(".grid-body [role=row]").filter(has_text="gamma").locator(".strip")
    expect(strip).to_have_attribute("aria-label", "1 run: 1 succeeded")
    world.ask("DELETE", f"/v1/jobs/{world.jobs['few/gamma']}")
    expect(names(page)).to_have_text(["beta", "alpha"])


def test_many_are_acted_on_with_their_number_first(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs?namespace=many&owner=owner-1")
    expect(names(page).first).to_be_visible()
    boxes = page.locator(".grid-body .choose input")
    boxes.nth(0).click()
    boxes.nth(3).click(modifiers=["Shift"])
    expect(page.get_by_text("4 jobs chosen")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Pause 4 jobs?")
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name=re.compile("Choose all that match")).click()
    page.get_by_role("button", name="Pause").click()
    expect(dialog.get_by_role("heading")).to_have_text(f"Pause {JOBS // 5} jobs?")
    dialog.get_by_role("button", name=f"Pause {JOBS // 5} jobs").click()
    expect(dialog).to_contain_text(f"{JOBS // 5} paused")
    dialog.get_by_role("button", name="Close", exact=True).last.click()
    expect(page.locator(".grid-body [role=row]").first).to_contain_text("suspended")
    expect(page.get_by_role("region", name="Chosen jobs")).to_have_count(0)
    found = world.ask("GET", "/v1/jobs?namespace=many&state=SUSPENDED&limit=1000")["items"]
    assert {one["owner"] for one in found} == {"owner-1"}
    assert len(found) == JOBS // 5


def test_runs_come_and_end_while_one_looks(world: World, tab: Tab) -> None:
    page = tab.go("/ui/runs?namespace=slow")
    expect(page.get_by_text("No runs here")).to_be_visible()
    job = world.put("slow/one", {**MANUAL, "handler": {"shell": "while :; do sleep 0.1; done"}})
    run = world.ask("POST", f"/v1/jobs/{job}/run", {})["id"]
    rows = page.locator(".grid-body [role=row]")
    expect(rows.first).to_contain_text("running")
    world.ask("POST", f"/v1/instances/{run}/kill", {})
    expect(rows.first).to_contain_text("killed")
    page.get_by_label("State").select_option("SUCCEEDED")
    expect(page.get_by_text("No runs here")).to_be_visible()
    page.get_by_label("State").select_option("KILLED")
    expect(names(page)).to_have_text(["one"])
    names(page).first.click()
    page.wait_for_url(lambda url: f"/ui/runs/{run.partition('@')[0]}" in url)


def test_runs_are_killed_and_run_again_together(world: World, tab: Tab) -> None:
    job = world.put("bulk/loop", {**MANUAL, "handler": {"shell": "while :; do sleep 0.1; done"}, "overlap": "allow"})
    runs = [world.ask("POST", f"/v1/jobs/{job}/run", {})["id"] for _ in range(3)]
    for run in runs:
        world.until(run, "RUNNING")
    page = tab.go("/ui/runs?namespace=bulk")
    rows = page.locator(".grid-body [role=row]:visible")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="running")).to_have_count(3)
    rows.first.locator(".choose input").click()
    bar = page.get_by_role("region", name="Chosen runs")
    expect(bar.get_by_role("button", name="Rerun 0")).to_be_disabled()
    bar.get_by_role("button", name="Kill 1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Kill 1 run?")
    dialog.get_by_role("button", name="Kill 1").click()
    expect(rows.filter(has_text="killed")).to_have_count(1)
    page.get_by_label("Choose all that match").click()
    bar.get_by_role("button", name="Kill all").click()
    expect(dialog.get_by_role("heading")).to_have_text("Kill 2 runs?")
    dialog.get_by_role("button", name="Kill 2").click()
    expect(rows.filter(has_text="killed")).to_have_count(3)
    expect(bar).to_have_count(0)
    rows.first.locator(".choose input").click()
    bar.get_by_role("button", name="Rerun 1").click()
    dialog.get_by_role("button", name="Rerun 1").click()
    expect(rows.filter(has_text="attempt 2")).to_have_count(1)
    world.ask("POST", f"/v1/jobs/{job}/expire", {"kill": True})


def test_columns_sort_what_is_loaded_and_say_so(world: World, tab: Tab) -> None:
    tab.page.add_init_script("window.setInterval = () => 0")  # nothing is drawn again but what was clicked on
    page = tab.go("/ui/jobs?namespace=few")
    expect(names(page)).to_have_text(["beta", "alpha"])
    head = page.get_by_role("columnheader", name="Name")
    for order, shown in {
        "ascending": ["alpha", "beta"],
        "descending": ["beta", "alpha"],
        "none": ["beta", "alpha"],
    }.items():
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", order)
        expect(names(page)).to_have_text(shown)
    page.route("**/v1/jobs?*cursor=*", lambda route: None)  # the rest does not come
    page.goto(page.url.partition("/ui/")[0] + "/ui/jobs?namespace=many&sort=name")
    expect(page.get_by_role("status").filter(has_text="loaded")).to_contain_text("100 loaded of them sorted")


def test_a_job_shows_how_its_last_run_ended(world: World, tab: Tab) -> None:
    job = world.put("ends/failing", {**MANUAL, "handler": {"shell": "exit 3"}})
    run = world.ask("POST", f"/v1/jobs/{job}/run", {})["id"]
    world.until(run, "FAILED")
    world.put("ends/over", {**MANUAL})
    world.ask("POST", f"/v1/jobs/{world.jobs['ends/over']}/expire", {})
    page = tab.go("/ui/jobs?namespace=ends")
    rows = page.locator(".grid-body [role=row]")
    expect(rows.filter(has_text="failing").locator(".col-last")).to_contain_text("failed")
    expect(rows.filter(has_text="over").locator(".col-state")).to_contain_text("finished")


def test_jobs_that_fail_and_runs_that_are_late_are_filtered(world: World, tab: Tab) -> None:
    for name, shell in {"good": "true", "bad": "exit 3"}.items():
        job = world.put(f"health/{name}", {**MANUAL, "handler": {"shell": shell}})
        world.until(world.ask("POST", f"/v1/jobs/{job}/run", {})["id"], "SUCCEEDED", "FAILED")
    page = tab.go("/ui/jobs?namespace=health")
    expect(names(page)).to_have_text(["bad", "good"])
    page.get_by_label("Health").select_option("failing")
    expect(names(page)).to_have_text(["bad"])
    page.get_by_label("Health").select_option("late now")
    expect(page.get_by_text("No job matches")).to_be_visible()
    tab.go("/ui/?namespace=health")
    page.locator(".tile", has_text="Late").click()
    page.wait_for_url(re.compile(r"/ui/runs\?.*late=true"))
    expect(page.get_by_label("Start", exact=True)).to_have_value("true")
    expect(page.get_by_text("No runs here")).to_be_visible()  # runs that were started by hand are never late


def test_a_node_of_an_older_version_is_asked_again_without_the_fields(world: World, tab: Tab) -> None:
    """A page goes on at another node while a cluster is upgraded."""
    tab.expects("status of 400")
    refused = {"code": "invalid-parameter", "errors": [{"parameter": "fields", "detail": "names 'last_state'"}]}

    def older(route: Route) -> None:
        if "last_state" in route.request.url:
            route.fulfill(status=400, content_type="application/problem+json", body=json.dumps(refused))
        else:
            route.continue_()

    tab.context.route("**/v1/jobs?*", older)
    page = tab.go("/ui/jobs")
    expect(page.locator(".grid-body [role=row]:not([hidden])").first).to_be_visible()
    expect(page.locator("main [role=alert]")).to_have_count(0)


@pytest.mark.parametrize("sort", ["__proto__", "constructor", "-toString"])
def test_an_order_that_no_column_has_is_that_of_the_api(world: World, tab: Tab, sort: str) -> None:
    page = tab.go(f"/ui/jobs?sort={sort}")
    expect(page.locator(".grid-body [role=row]:not([hidden])").first).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("sorted")


def test_a_comparison_of_nothing_says_what_is_missing(world: World, tab: Tab) -> None:
    page = tab.go("/ui/compare")
    expect(page.locator("main")).to_contain_text("The address names no two runs.")
