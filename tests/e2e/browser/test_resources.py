"""Queues, calendars, namespaces, secrets, webhooks, tokens: made, changed, deleted in the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def world(cluster: Cluster) -> World:
    return World(cluster)


def create(page: Page, noun: str, name: str, **fields: str) -> None:
    page.get_by_role("button", name=f"New {noun}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill(name)
    for label, value in fields.items():
        dialog.get_by_label(label.replace("_", " ")).fill(value)
    assert not axe.violations(page)
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def delete(page: Page, noun: str, title: str) -> None:
    page.locator(".page-head").get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"Delete the {noun}")
    dialog.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(title)


def test_a_queue_is_made_limited_paused_and_deleted(world: World, tab: Tab) -> None:
    page = tab.go("/ui/queues")
    create(page, "queue", "mail", Runs_at_one_time="3")
    expect(page.locator("main")).to_contain_text("0 of 3")
    page.get_by_role("button", name="Edit").click()
    page.get_by_role("dialog").get_by_label("Runs at one time").fill("7")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("0 of 7")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".page-head")).to_contain_text("paused")
    assert world.ask("GET", "/v1/queues/mail")["paused"] is True
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".page-head")).not_to_contain_text("paused")
    delete(page, "queue", "Queues")
    expect(page.locator("main")).not_to_contain_text("mail")


def test_what_a_form_has_wrong_is_said_at_the_field(world: World, tab: Tab) -> None:
    tab.expects("status of 4(00|22)")
    page = tab.go("/ui/queues")
    page.get_by_role("button", name="New queue").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("<script>alert(1)</script>")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.locator(".error, .problem").first).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("good-name")
    dialog.get_by_label("Starts in each period").fill("5")
    dialog.get_by_label("Period", exact=True).fill("soon")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_label("Period", exact=True)).to_have_attribute("aria-invalid", "true")
    assert not axe.violations(page)


def test_an_edit_that_somebody_else_was_quicker_with_is_not_lost(world: World, tab: Tab) -> None:
    world.ask("PUT", "/v1/queues/shared", {"max_running": 2})
    world.everywhere("/v1/queues/shared")
    tab.expects("status of 412")
    page = tab.go("/ui/queues/shared")
    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Runs at one time").fill("9")
    world.ask("PATCH", "/v1/queues/shared", {"max_running": 4})
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_visible()
    expect(dialog.locator(".problem, .warning, [role=alert]").first).to_be_visible()
    assert world.ask("GET", "/v1/queues/shared")["max_running"] == 4


def test_a_calendar_s_days_are_chosen_by_a_click(world: World, tab: Tab) -> None:
    page = tab.go("/ui/calendars")
    create(page, "calendar", "holidays", Time_zone="Europe/Madrid")
    page = tab.go("/ui/calendars/holidays?year=2027")
    page.get_by_role("checkbox", name="Sunday").check()
    page.get_by_label("every year").check()
    page.get_by_role("button", name="Friday, 1 January 2027").click()
    expect(page.get_by_role("region", name="Unsaved changes")).to_be_visible()
    assert not axe.violations(page)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("region", name="Unsaved changes")).to_have_count(0)
    saved = world.ask("GET", "/v1/calendars/holidays")
    assert (saved["weekdays"], saved["yearly"]) == (["sun"], ["01-01"])


def test_a_namespace_is_declared_and_keeps_secrets(world: World, tab: Tab) -> None:
    page = tab.go("/ui/namespaces")
    create(page, "namespace", "billing", Owner="ana")
    page.get_by_role("button", name="New secret").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("api-key")
    dialog.get_by_label("Value", exact=True).fill("s3cret-value")
    dialog.locator("button[type=submit]").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("table").first).to_contain_text("api-key")
    expect(page.locator("body")).not_to_contain_text("s3cret-value")
    page.get_by_role("button", name="Delete api-key").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("main")).not_to_contain_text("api-key")
    delete(page, "namespace", "Namespaces")


def test_a_webhook_shows_its_secret_once_and_is_tested(world: World, tab: Tab) -> None:
    page = tab.go("/ui/webhooks")
    page.get_by_role("button", name="New webhook").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("ops")
    dialog.get_by_label("Address").fill("http://127.0.0.1:9/hook")
    dialog.get_by_label("Delays before it is sent again").fill("1h")
    dialog.get_by_role("button", name="Create").click()
    expect(page.get_by_role("dialog")).to_contain_text("whsec_")
    page.get_by_role("button", name="I have it").click()
    expect(page.locator("body")).not_to_contain_text("whsec_")
    page.get_by_role("button", name="Send a test").click()
    expect(page.locator("main")).to_contain_text("retrying")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Activate")).to_be_visible()
    page.get_by_role("button", name="New secret").click()
    page.get_by_role("dialog").get_by_role("button", name="Change the secret").click()
    expect(page.get_by_role("dialog")).to_contain_text("whsec_")
    page.get_by_role("button", name="I have it").click()
    delete(page, "webhook", "Webhooks")


def test_a_token_is_made_shown_once_and_revoked(world: World, tab: Tab) -> None:
    page = tab.go("/ui/tokens")
    page.get_by_role("button", name="New token").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("eyes")
    dialog.get_by_label("Role").first.select_option("viewer")
    assert not axe.violations(page)
    dialog.get_by_role("button", name="Create").click()
    secret = page.get_by_role("dialog").locator(".secret").inner_text()
    assert secret.startswith("rs_")
    page.get_by_role("button", name="I have it").click()
    expect(page.locator("body")).not_to_contain_text(secret)
    expect(page.get_by_role("table")).to_contain_text("eyes")
    page.get_by_role("button", name="Revoke eyes").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(page.locator("main")).not_to_contain_text("eyes")
    page = tab.go("/ui/audit")
    expect(page.locator("main")).to_contain_text("tokens_create")
    expect(page.locator("body")).not_to_contain_text(secret)
