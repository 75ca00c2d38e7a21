"""The frame around the pages: keys, menu, theme, history, addresses; with a mouse and without one, on a phone, too."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import WIDTHS, Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
MANUAL = {"trigger": {"manual": True}, "handler": {"shell": "true"}}


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> World:
    made = World(cluster)
    for number in range(5):
        made.put(f"keys/job-{number}", MANUAL)
    return made


@pytest.fixture
def phone(open_tab: Opens) -> Tab:
    return open_tab(width=WIDTHS[0])


@pytest.mark.parametrize(
    "keys, title",
    [
        ("g j", "Jobs"),
        ("g r", "Runs"),
        ("g d", "Dead letters"),
        ("g q", "Queues"),
        ("g c", "Cluster"),
        ("g p", "Preview"),
        ("g n", "New job"),
    ],
)
def test_two_keys_go_to_a_page(tab: Tab, keys: str, title: str) -> None:
    page = tab.go("/ui/")
    for key in keys.split():
        page.keyboard.press(key)
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    assert title in page.title()


def test_the_question_mark_shows_the_keys_and_escape_hides_them(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("show these keys")
    expect(dialog).to_contain_text("next row")
    assert not axe.violations(page)
    page.keyboard.press("g")
    page.keyboard.press("r")
    expect(dialog).to_be_visible()  # keys of the page below it do nothing meanwhile
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")


def test_a_list_is_searched_walked_and_opened_by_keys(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs?namespace=keys")
    expect(page.locator("main")).to_contain_text("job-4")
    page.keyboard.press("/")
    page.keyboard.type("job-3")
    expect(page.locator("main")).not_to_contain_text("job-4")
    expect(page.locator("main")).to_contain_text("job-3")
    assert "job-3" in page.url
    page.keyboard.press("g")  # typed, not a key of the page
    page.keyboard.press("Backspace")
    page.keyboard.press("Escape")  # leaves the field, and keeps what was found
    page.keyboard.press("j")
    expect(page.locator(".grid-row.active")).to_contain_text("job-3")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("job-3")
    page.go_back()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    assert "job-3" in page.url
    expect(page.locator("main")).not_to_contain_text("job-4")


def test_what_is_hidden_in_the_menu_of_a_phone_opens(phone: Tab) -> None:
    page = phone.go("/ui/")
    link = page.get_by_role("navigation").get_by_role("link", name="Queues")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(link).to_be_visible()
    assert phone.overflow() <= 0
    assert not axe.violations(page)
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    expect(link).to_be_hidden()


def test_the_theme_is_chosen_and_kept(tab: Tab) -> None:
    page = tab.go("/ui/")
    background = "() => getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    button = page.get_by_role("button", name="Theme")
    while page.evaluate("() => document.documentElement.dataset.theme") != "dark":
        button.click()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark


def test_who_begins_with_the_tab_key_can_skip_the_menu(tab: Tab) -> None:
    page = tab.go("/ui/jobs")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"


def test_who_wants_no_motion_gets_none(open_tab: Opens) -> None:
    moving = """() => document.getAnimations().filter((one) => one.playState === "running").length +
      [...document.body.querySelectorAll("*")].filter((one) =>
        parseFloat(getComputedStyle(one).transitionDuration)).length"""
    for path in ("/ui/", "/ui/jobs", "/ui/cluster"):
        tab = open_tab(motion="reduce")
        page = tab.go(path)
        tab.settle()
        assert page.evaluate(moving) == 0, path


def test_the_history_goes_back_and_forth(world: World, tab: Tab) -> None:
    steps = ["Jobs", "Runs", "Queues"]
    page = tab.go("/ui/")
    page.evaluate("() => { window.marked = true; }")
    for title in steps:
        page.get_by_role("navigation").get_by_role("link", name=title, exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    for title in reversed(steps[:-1]):
        page.go_back()
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.go_forward()
    expect(page.get_by_role("heading", level=1)).to_have_text(steps[1])
    assert page.evaluate("() => window.marked")


def test_a_link_of_the_menu_is_marked_where_one_is(tab: Tab) -> None:
    page = tab.go("/ui/cluster/settings")
    current = page.get_by_role("navigation").locator("[aria-current]")
    expect(current).to_have_text("Cluster")
