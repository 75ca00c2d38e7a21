"""What is particular to some resources in the page: what holds a queue, a year's days, defaults, deliveries, roles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import World
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
REFUSED = r"status of 4(04|09|12|22)"
MANUAL = {"trigger": {"manual": True}, "handler": {"shell": "while :; do sleep 0.1; done"}, "overlap": "allow"}


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[World]:
    made = World(cluster)
    yield made
    made.end()


@pytest.fixture
def tab(open_tab: Opens) -> Tab:
    """Refusals are what some of these tests are about."""
    opened = open_tab()
    opened.expects(REFUSED)
    return opened


def press(where: Page | Locator, name: str) -> None:
    where.get_by_role("button", name=name, exact=True).click()


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def test_a_change_of_somebody_else_in_between_is_not_lost(world: World, tab: Tab) -> None:
    world.ask("PUT", "/v1/queues/shared", {"max_running": 3})
    page = tab.go("/ui/queues/shared")
    press(page, "Edit")
    form = dialog(page)
    world.ask("PATCH", "/v1/queues/shared", {"max_running": 5})
    form.get_by_label("Runs at one time").fill("7")
    press(form, "Save")
    expect(form.get_by_role("alert")).to_contain_text("Changed in the meantime")
    assert world.ask("GET", "/v1/queues/shared")["max_running"] == 5
    press(form, "Take up the present values")
    expect(form.get_by_label("Runs at one time")).to_have_value("5")
    form.get_by_label("Runs at one time").fill("6")
    press(form, "Save")
    expect(form).to_have_count(0)
    assert world.ask("GET", "/v1/queues/shared")["max_running"] == 6


def test_what_holds_a_queue_is_said_as_it_changes(world: World, tab: Tab) -> None:
    world.ask("PUT", "/v1/queues/narrow", {"max_running": 1})
    world.put("held/job", MANUAL | {"queue": "narrow"})
    page = tab.go("/ui/queues/narrow")
    expect(page.get_by_text("Nothing holds its runs")).to_be_visible()
    first = world.run("held/job")
    world.until(first, "RUNNING")
    world.run("held/job")
    expect(page.get_by_text("The queue is full: 1 of 1 run.")).to_be_visible()
    expect(page.get_by_text("What holds those that wait")).to_be_visible()
    expect(page.get_by_role("link", name="job", exact=True)).to_have_attribute(
        "href", f"/ui/jobs/{world.jobs['held/job']}"
    )
    tab.go("/ui/queues/unknown")
    expect(page.get_by_text("There is no queue unknown.")).to_be_visible()
    press(page, "Create unknown")
    expect(dialog(page).get_by_label("Name")).to_have_value("unknown")


def test_days_of_a_calendar_are_clicked_and_saved_together(world: World, tab: Tab) -> None:
    world.ask("PUT", "/v1/calendars/days", {"weekdays": ["sat", "sun"], "dates": ["2027-03-26"]})
    page = tab.go("/ui/calendars/days?year=2027")

    def day(date: str) -> Locator:
        return page.locator(f'[data-day="{date}"]')

    expect(day("2027-03-26")).to_have_attribute("aria-label", "Friday, 26 March 2027, excluded once")
    day("2027-03-26").click()
    day("2027-02-10").click()
    page.get_by_role("radio", name="every year").check()
    day("2027-10-12").click()
    page.get_by_role("radio", name="from").check()
    day("2027-07-15").click()
    expect(page.get_by_text("From Thursday, 15 July 2027: choose the last day.")).to_be_visible()
    day("2027-07-05").click()
    page.get_by_role("checkbox", name="Saturday").uncheck()
    expect(day("2027-02-10")).to_have_attribute("aria-pressed", "true")
    assert world.ask("GET", "/v1/calendars/days")["dates"] == ["2027-03-26"]  # nothing is saved yet
    press(page, "Save")
    expect(page.get_by_role("region", name="Unsaved changes")).to_have_count(0)
    saved = world.ask("GET", "/v1/calendars/days")
    assert (saved["dates"], saved["yearly"], saved["weekdays"]) == (["2027-02-10"], ["10-12"], ["sun"])
    assert saved["ranges"] == [{"from": "2027-07-05", "to": "2027-07-15"}]

    day("2027-07-06").focus()
    page.keyboard.press("ArrowDown")
    expect(day("2027-07-13")).to_be_focused()
    page.keyboard.press("Enter")
    world.ask("PATCH", "/v1/calendars/days", {"description": "changed meanwhile"})
    press(page, "Save")
    expect(page.get_by_role("alert")).to_contain_text("Changed in the meantime")
    press(page, "Discard")
    expect(day("2027-07-13")).to_have_attribute("aria-pressed", "true")
    day("2027-07-13").click()
    press(page, "Save")
    expect(page.get_by_role("region", name="Unsaved changes")).to_have_count(0)
    parts = world.ask("GET", "/v1/calendars/days")["ranges"]
    assert parts == [{"from": "2027-07-05", "to": "2027-07-12"}, {"from": "2027-07-14", "to": "2027-07-15"}]


def test_the_jobs_of_a_calendar_are_a_filter_of_the_list(world: World, tab: Tab) -> None:
    world.ask("PUT", "/v1/calendars/used", {"weekdays": ["sat", "sun"]})
    world.put("cal/with", MANUAL | {"trigger": {"cron": "0 9 * * *", "calendar": "used"}})
    world.put("cal/without", MANUAL)
    page = tab.go("/ui/calendars/used")
    expect(page.get_by_role("link", name="with", exact=True)).to_be_visible()
    mark = page.evaluate("() => getComputedStyle(document.querySelector('.year button.year-weekday')).backgroundImage")
    assert mark.startswith("repeating-linear")  # its own, not that of any button that is pressed
    page.get_by_role("link", name="All in the list of jobs").click()
    page.wait_for_url("**/ui/jobs?calendar=used")
    expect(page.get_by_role("link", name="with", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="without", exact=True)).to_have_count(0)


def test_days_that_are_not_saved_are_not_left_by_mistake(world: World, tab: Tab) -> None:
    world.ask("PUT", "/v1/calendars/kept", {})
    page = tab.go("/ui/calendars/kept?year=2028")
    page.locator('[data-day="2028-02-29"]').click()
    page.locator(".page-head").get_by_role("link", name="Calendars").click()
    press(dialog(page), "Cancel")
    page.wait_for_url("**/ui/calendars/kept?year=2028")
    expect(page.locator('[data-day="2028-02-29"]')).to_have_attribute("aria-pressed", "true")
    page.locator(".page-head").get_by_role("link", name="Calendars").click()
    press(dialog(page), "Leave")
    expect(page.get_by_role("heading", name="Calendars", level=1)).to_be_visible()


def test_a_namespace_and_its_secrets(world: World, tab: Tab) -> None:
    world.put("fin/report", MANUAL)
    page = tab.go("/ui/namespaces/fin")
    expect(page.locator(".page-head .badge")).to_contain_text("not declared")
    press(page, "Declare it")
    form = dialog(page)
    form.get_by_label("Jobs", exact=True).fill("4")
    form.get_by_label("Defaults of its jobs").fill('{"timeout": ')
    press(form, "Save")
    expect(form.locator(".error")).to_contain_text("is not JSON")
    form.get_by_label("Defaults of its jobs").fill('{"timeout": "soon"}')
    press(form, "Save")
    expect(form.locator(".error")).to_contain_text("Defaults of its jobs is not a duration")
    form.get_by_label("Defaults of its jobs").fill('{"timeout": "10m"}')
    press(form, "Save")
    expect(page.locator(".page-head .badge")).to_contain_text("✓ declared")
    expect(page.get_by_text("1 of 4")).to_be_visible()
    press(page, "New secret")
    form.get_by_label("Name", exact=True).fill("smtp")
    value = form.get_by_role("textbox", name="Value")
    expect(value).to_have_attribute("type", "password")
    value.fill("hush-hush")
    press(form, "Save")
    row = page.get_by_role("row").filter(has_text="smtp")
    expect(row).to_be_visible()
    before = world.ask("GET", "/v1/namespaces/fin/secrets/smtp")["revision"]
    press(row, "New value of smtp")
    expect(value).to_have_value("")
    value.fill("another")
    press(form, "Save")
    expect(form).to_have_count(0)
    assert world.ask("GET", "/v1/namespaces/fin/secrets/smtp")["revision"] > before
    assert "hush-hush" not in page.content()
    press(row, "Delete smtp")
    press(form, "Delete")
    expect(page.get_by_text("There are no secrets.")).to_be_visible()
    press(page, "Delete")
    press(form, "Delete")
    expect(form.get_by_role("alert")).to_contain_text("job")  # it holds one


def test_a_webhook_and_its_deliveries(world: World, tab: Tab) -> None:
    page = tab.go("/ui/webhooks")
    press(page, "New webhook")
    form = dialog(page)
    form.get_by_label("Name", exact=True).fill("crm")
    press(form, "Create")
    expect(form.locator(".error")).to_contain_text("Address")
    form.get_by_label("Address").fill("http://127.0.0.1:9/hook")
    form.get_by_label("dead letter").check()
    form.get_by_label("Headers").fill("X-One: 1\nX-Two: a: b")
    form.get_by_label("With the labels").fill("team")
    press(form, "Create")
    expect(form.locator(".error")).to_contain_text("without a colon")
    form.get_by_label("With the labels").fill("team: fin")
    press(form, "Create")
    expect(page.locator(".once code")).to_contain_text("whsec_")
    secret = page.locator(".once code").inner_text()
    press(form, "I have it")
    made: dict[str, Any] = world.ask("GET", "/v1/webhooks/crm")
    assert (made["events"], made["filter"]["labels"]) == (["dead_letter"], {"team": "fin"})
    assert made["headers"] == {"X-One": "1", "X-Two": "a: b"}
    press(page, "Send a test")
    expect(page.get_by_role("row").filter(has_text="test").get_by_role("link")).to_have_count(1)
    press(page, "New secret")
    form.get_by_label("Overlap").fill("1y")
    press(form, "Change the secret")
    expect(form.locator(".error")).to_be_visible()
    form.get_by_label("Overlap").fill("1h")
    press(form, "Change the secret")
    expect(page.locator(".once code")).to_contain_text("whsec_")
    assert page.locator(".once code").inner_text() != secret
    press(form, "I have it")
    expect(page.get_by_text("Secret before holds until")).to_be_visible()


def test_an_operation_and_what_it_refused(world: World, tab: Tab) -> None:
    world.put("bulk/one", MANUAL)
    world.put("bulk/two", MANUAL | {"suspended": True})
    page = tab.go("/ui/operations")
    world.ask("POST", "/v1/jobs:actions", {"action": "pause", "filter": {"namespace": "bulk"}})
    card = page.get_by_role("region", name="pause: jobs with namespace bulk")
    expect(card.get_by_text("done")).to_be_visible()
    expect(card).to_contain_text("2 matched")


def test_a_viewer_is_offered_no_change(world: World, tab: Tab) -> None:
    """Last: the cluster wants tokens from here on."""
    tab.expects(r"status of 401")
    for name, role in (("root", "admin"), ("eye", "viewer")):
        made = world.ask("POST", "/v1/tokens", {"name": name, "role": role})
        if role == "viewer":
            viewer = made["secret"]
        else:
            world.headers = {"Authorization": f"Bearer {made['secret']}"}
    world.ask("PUT", "/v1/calendars/days", {})
    world.ask("PUT", "/v1/cluster/access", {"required": True})
    tab.sign_in(viewer)
    for path in ("queues", "queues/narrow", "calendars", "calendars/days", "namespaces/fin", "webhooks", "operations"):
        page = tab.go(f"/ui/{path}")
        tab.settle()
        assert page.locator("main button:visible").all_inner_texts() in ([], ["←", "This year", "→"]), path
    tab.go("/ui/calendars/days")
    expect(page.locator("[data-day]").first).to_have_attribute("role", "img")
