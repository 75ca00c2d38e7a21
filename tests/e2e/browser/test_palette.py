"""What is there on every page: the palette, filters that a browser keeps, and the page as lines for a terminal."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> World:
    made = World(cluster)
    for name in ("invoices", "reminders"):
        made.put(f"billing/{name}", {"trigger": {"manual": True}, "handler": {"shell": "true"}})
    made.runs["invoices"] = made.run("billing/invoices")
    made.until(made.runs["invoices"], "SUCCEEDED")
    return made


def opened(page: Page, key: str = "Control+k") -> None:
    page.keyboard.press(key)
    expect(page.get_by_role("combobox", name="A job, a run, a page or an action")).to_be_focused()


@pytest.mark.parametrize("key", ["Control+k", "Meta+k"])
def test_the_palette_goes_to_a_page_by_the_keyboard_alone(world: World, tab: Tab, key: str) -> None:
    page = tab.go("/ui/")
    opened(page, key)
    page.keyboard.type("dead lett")
    options = page.get_by_role("dialog").get_by_role("option")
    expect(options).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_palette_finds_jobs_and_runs_and_says_which_is_meant(world: World, tab: Tab) -> None:
    page = tab.go("/ui/runs")
    opened(page)
    box = page.get_by_role("combobox", name="A job, a run, a page or an action")
    page.keyboard.type("billing/inv")
    options = page.get_by_role("dialog").get_by_role("option")
    expect(options).to_have_count(2)
    expect(options.first).to_contain_text("billing/invoices")
    expect(options.last).to_contain_text("Run of invoices, succeeded")
    expect(box).to_have_attribute("aria-activedescendant", options.first.get_attribute("id") or "")
    assert not axe.violations(page)
    page.keyboard.press("ArrowDown")
    expect(options.last).to_have_attribute("aria-selected", "true")
    expect(box).to_have_attribute("aria-activedescendant", options.last.get_attribute("id") or "")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Run of invoices")
    opened(page)
    box.fill(world.runs["invoices"])
    expect(options).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def hold(page: Page, addresses: str) -> list[Route]:
    """Lets requests wait. They come into the list that is returned."""
    held: list[Route] = []

    def wait(route: Route) -> None:
        held.append(route)

    page.route(addresses, wait)
    return held


def test_what_the_palette_finds_later_changes_nothing_that_was_chosen(world: World, tab: Tab) -> None:
    page = tab.go("/ui/")
    held = hold(page, "**/v1/jobs?*name_contains*")
    opened(page)
    page.keyboard.type("re")
    options = page.get_by_role("dialog").get_by_role("option")
    with page.expect_request("**/v1/jobs?*name_contains*"):
        page.keyboard.press("ArrowDown")
    chosen = page.locator("[role=option][aria-selected=true]")
    before = chosen.inner_text()
    held.pop().continue_()
    expect(options.first).to_contain_text("billing/reminders")
    expect(chosen).to_have_text(before.replace("\n", ""))


def test_the_palette_shows_nothing_of_what_was_typed_before(world: World, tab: Tab) -> None:
    tab.page.clock.install()
    page = tab.go("/ui/")
    hold(page, "**/v1/jobs?*name_contains=invo*")
    opened(page)
    page.clock.pause_at(page.evaluate("Date.now() / 1000 + 1"))
    page.keyboard.type("invo")
    with page.expect_request("**/v1/jobs?*name_contains=invo*"):
        page.clock.run_for(1_000)
    with page.expect_event("requestfailed"):  # given up before more than this is asked for: the clock stands
        page.keyboard.type("x")
    expect(page.get_by_role("dialog").get_by_role("option")).to_have_count(0)


def test_the_palette_does_what_is_asked_once_it_is_confirmed(world: World, tab: Tab) -> None:
    page = tab.go("/ui/")
    opened(page)
    page.keyboard.type("pause remind")
    expect(page.get_by_role("dialog").get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Pause billing/reminders?")
    dialog.get_by_role("button", name="Pause").click()
    path = f"/v1/jobs/{world.jobs['billing/reminders']}"
    world.cluster.wait("the job to be paused", lambda: world.ask("GET", path)["state"] == "SUSPENDED")


def test_the_palette_offers_the_buttons_of_the_page(world: World, tab: Tab) -> None:
    page = tab.go(f"/ui/jobs/{world.jobs['billing/invoices']}")
    expect(page.get_by_role("button", name="Run now")).to_be_visible()
    opened(page)
    page.keyboard.type("run now")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("invoices")


def test_the_keys_list_the_palette(tab: Tab) -> None:
    page = tab.go("/ui/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("go to a job, a run or a page, or do something")


def test_a_filter_is_kept_shown_made_the_default_and_deleted(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs?state=SCHEDULED")
    page.get_by_role("button", name="Save this filter").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("<b>mine</b>")
    assert not axe.violations(page)
    dialog.get_by_role("button", name="Save").click()
    saved = page.get_by_role("group", name="Saved filters")
    expect(saved.get_by_role("link", name="<b>mine</b>")).to_have_attribute("aria-current", "true")
    tab.go("/ui/jobs")
    expect(saved.get_by_role("link")).to_have_count(1)
    saved.get_by_role("link").click()
    expect(page).to_have_url(f"{world.cluster.nodes[0].url}/ui/jobs?state=SCHEDULED")
    page.get_by_role("button", name="Edit saved").click()
    dialog.get_by_role("button", name="Default").click()
    page.keyboard.press("Escape")
    tab.go("/ui/runs")
    expect(page.get_by_role("group", name="Saved filters").get_by_role("link")).to_have_count(
        0
    )  # each page has its own
    page.get_by_role("navigation").get_by_role("link", name="Jobs").click()
    expect(page).to_have_url(f"{world.cluster.nodes[0].url}/ui/jobs?state=SCHEDULED")
    page.get_by_role("button", name="Edit saved").click()
    dialog.get_by_role("button", name="Delete <b>mine</b>").click()
    expect(dialog).to_contain_text("None are left.")
    page.keyboard.press("Escape")
    expect(saved.get_by_role("link")).to_have_count(0)


def test_a_page_is_copied_as_lines(world: World, tab: Tab) -> None:
    page = tab.go("/ui/runs?state=FAILED")
    page.get_by_role("button", name="Copy as CLI or curl").click()
    dialog = page.get_by_role("dialog")
    url = world.cluster.nodes[0].url
    expect(dialog).to_contain_text(f"raftsched --server {url} runs list --state FAILED")
    assert not axe.violations(page)
    dialog.get_by_role("button", name="Copy curl").click()
    assert page.evaluate("() => navigator.clipboard.readText()") == f"curl '{url}/v1/instances?state=FAILED'"
