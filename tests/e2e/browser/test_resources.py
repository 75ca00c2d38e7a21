"""Forms of named resources: a queue is made, changed and deleted, and what is wrong is said at its field."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> World:
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
