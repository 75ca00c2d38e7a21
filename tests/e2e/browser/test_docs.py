"""The documentation on a node, in a browser: it is found by the words that people use, read at any width, and loads
nothing but its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect

from raftsched.ui import docs
from scripts.website import words
from scripts.website.built_in import HOME, bundle, packed
from tests.e2e.browser.conftest import Opens
from tests.support import axe
from tests.support.amounts import a_share, some
from tests.support.browser import Tab, Theme
from tests.support.local_cluster import LocalCluster
from tests.support.modules import ROOT
from tests.support.patience import patient

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
WIDTHS = (390, 768, 1024, 1280, 1440)
# Pages are alike around their articles: axe takes two seconds a page, and looks at one of each kind.
_LOOKED_AT_WHOLE = {(path, WIDTHS[0]) for path in ("", "runs/", "reference/api/jobs/")}
_LOOKED_AT_FOR_COLOURS = {("runs/", WIDTHS[-1]), ("reference/api/jobs/", WIDTHS[-1])}
# what people type -> the page that they need
QUERIES = {
    "tutorial": "tutorials",
    "FAQ": "faq",
    "quickstart": "project/readme",
    "getting started": "project/readme",
    "troubleshoot": "faq",
    "stuck": "how-to",
    "my job is stuck": "how-to",
    "duplicate": "faq",
    "high availability": "faq",
    "e-mail": "how-to",
    "email": "how-to",
    "email on failure": "how-to",
    "send email when a job fails": "how-to",
    "Helm": "faq",
    "FastAPI": "tutorials/fastapi",
    "django": "django",
    "PagerDuty": "how-to",
    "Nomad": "faq",
    "Sidekiq": "faq",
    "Airflow": "faq",
    "best practice": "how-to",
    "migrate": "moving",
    "migrating from celery": "tutorials/from-celery-beat",
    "crontab": "tutorials/from-a-crontab",
    "apscheduler": "tutorials/from-apscheduler",
    "retry failed job": "how-to",
    "how do I retry a failed job?": "how-to",
    "runbook": "runbook",
    "glossary": "glossary",
    "backup": "backups",
    "certificates": "security",
    "disk full": "runbook",
    "cron": "schedules",
    "logs": "outputs",
    "run as another user": "processes",
    "docker": "containers",
    "prometheus": "metrics",
    "raftsched jobs create": "reference/commands/jobs",
}


@pytest.fixture(scope="module")
def built() -> docs.Docs:
    return docs.Docs(packed(bundle(), quality=4), docs.theme())


@pytest.fixture(autouse=True)
def served(built: docs.Docs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The documentation of this source, whether or not the checkout has it built."""
    monkeypatch.setattr(docs, "load", cache(lambda: built))


@pytest.fixture(scope="module")
def searching(browser: Browser, cluster: LocalCluster) -> Iterator[Tab]:
    opened = Tab(browser, cluster.nodes)
    yield opened
    unexpected = opened.unexpected
    opened.close()
    assert not unexpected, unexpected


@pytest.mark.parametrize(("query", "page"), QUERIES.items())
def test_what_people_search_for_is_found_first(searching: Tab, query: str, page: str) -> None:
    assert first(searching, query).partition("#")[0] == f"{HOME}{page}/"


def test_the_words_of_each_page_lead_to_it(searching: Tab, built: docs.Docs) -> None:
    places = {phrase: place for phrase, place, _ in built.words}
    wrong = {}
    for phrase, place in places.items():
        if (found := first(searching, phrase)) != place:
            wrong[phrase] = (found, place)
    assert not wrong
    assert len(places) == sum(map(len, words.WORDS.values())), "a word leads to two places"


def first(tab: Tab, query: str) -> str:
    """Returns the address of the first that a search finds, without the node's."""
    if HOME not in tab.page.url:
        tab.go(HOME)
    tab.page.locator("#asked").fill(query)
    found = tab.page.locator("#found")
    expect(found).to_have_attribute("data-query", query)
    return str(found.evaluate("(list) => { const a = list.querySelector('a'); return a ? a.pathname + a.hash : ''; }"))


def test_a_search_says_when_it_finds_nothing_and_ends_with_escape(tab: Tab) -> None:
    page = tab.go(HOME)
    page.keyboard.press("/")
    page.keyboard.type("xyzzy")
    expect(page.get_by_role("status")).to_have_text("Nothing is found for “xyzzy”.")
    page.keyboard.press("Escape")
    expect(page.locator("#results")).to_be_hidden()
    page.locator("#asked").fill("runbook")
    expect(page.locator("#found")).to_have_attribute("data-query", "runbook")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{HOME}runbook/")


@pytest.mark.parametrize("theme", some(list(get_args(Theme))))
@pytest.mark.parametrize("width", [WIDTHS[0], *a_share(list(WIDTHS[1:]), 4)])
def test_pages_are_read_at_any_width_in_both_themes(open_tab: Opens, theme: Theme, width: int) -> None:
    tab = open_tab(theme=theme, width=width)
    for path in ("", "runbook/", "runs/", "metrics/", "reference/api/jobs/", "reference/commands/jobs/"):
        page = tab.go(HOME + path)
        assert tab.overflow() <= 0, path
        if (path, width) in _LOOKED_AT_WHOLE:
            assert axe.violations(page) == [], path
        elif (path, width) in _LOOKED_AT_FOR_COLOURS:
            assert axe.violations(page, axe.OF_COLOURS) == [], path
    expect(page.locator("#menu")).to_be_visible(visible=width > 900)
    if width <= 900:
        page.get_by_role("button", name="Menu").click()
        expect(page.get_by_role("link", name="Errors", exact=True)).to_be_visible()


def test_a_block_of_commands_is_copied(tab: Tab) -> None:
    page = tab.go(HOME)
    page.get_by_role("button", name="Copy").first.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").startswith("raftsched dev")


def test_the_site_has_the_same_search_in_its_header(browser: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT.parent, check=True, capture_output=True, timeout=patient(240))

    def answer(route: Route) -> None:
        file = tmp_path / urlsplit(route.request.url).path.lstrip("/")
        route.fulfill(path=file) if file.is_file() else route.fulfill(status=404)

    with browser.new_context(color_scheme="dark") as context:
        context.route("**/*", answer)
        page = context.new_page()
        page.goto("http://site.example/reference/errors.html")
        page.get_by_label("Search the documentation").fill("disk full")
        expect(page.locator("#found")).to_have_attribute("data-query", "disk full")
        page.locator("#found a").first.click()
        page.wait_for_url("http://site.example/runbook.html#disks-that-fill-up")
