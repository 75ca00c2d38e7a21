"""Tokens in the page: asked for, kept in the tab alone, refused, revoked; what a token may not do is not offered."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import World
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
MANUAL = {"trigger": {"manual": True}, "handler": {"shell": "echo done"}}


class Guarded(World):
    """A world that wants tokens; `secrets` by their names."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self.secrets: dict[str, str] = {}
        self.token("root", "admin")
        self.headers = {"Authorization": f"Bearer {self.secrets['root']}"}
        self.ask("PUT", "/v1/cluster/access", {"required": True})
        for role in ("viewer", "editor", "operator"):
            self.token(role, role)
        self.token("ana", "editor", namespaces=["billing"])
        self.put("billing/report", MANUAL)
        self.put("data/secret-plan", MANUAL)
        self.runs["report"] = self.run("billing/report")
        self.runs["plan"] = self.run("data/secret-plan")
        self.until(self.runs["report"], "SUCCEEDED")
        self.until(self.runs["plan"], "SUCCEEDED")

    def token(self, name: str, role: str, **more: object) -> str:
        """The id; all nodes know the token when this returns."""
        made = self.ask("POST", "/v1/tokens", {"name": name, "role": role, **more})
        self.secrets[name] = made["secret"]
        bearer = {"Authorization": f"Bearer {made['secret']}"}
        self.cluster.wait(
            f"{name} at all nodes",
            lambda: all(n.request("GET", "/v1/whoami", None, bearer).status == 200 for n in self.cluster.alive()),
        )
        return str(made["id"])


@pytest.fixture(scope="module")
def guarded(cluster: LocalCluster) -> Guarded:
    return Guarded(cluster)


@pytest.fixture
def tab(open_tab: Opens) -> Tab:
    """Requests without a token, or with one that holds no longer, are what these tests are about."""
    opened = open_tab()
    opened.expects(r"status of 401", r"net::ERR_INCOMPLETE_CHUNKED_ENCODING.*/v1/changes")  # which is cut then
    return opened


def test_a_page_without_a_token_asks_for_one_and_comes_back(guarded: Guarded, tab: Tab) -> None:
    path = f"/ui/jobs/{guarded.jobs['billing/report']}"
    page = tab.go(path)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_label("Token").fill("rs_nobody-made-this-one")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("oken")
    page.get_by_label("Token").fill(guarded.secrets["viewer"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("report")
    assert page.url == tab.nodes[0].url + path
    expect(page.locator("#top")).to_contain_text("viewer")


def test_a_token_is_kept_in_the_tab_alone(guarded: Guarded, tab: Tab) -> None:
    secret = guarded.secrets["operator"]
    seen: list[str] = []
    tab.context.on("request", lambda request: seen.append(unquote(request.url)))
    page = tab.sign_in(secret)
    page.reload()
    expect(page.locator("#top")).to_contain_text("operator")
    assert page.evaluate("() => JSON.stringify(localStorage)").find(secret) < 0
    assert not tab.context.cookies()
    assert not [url for url in seen if secret in url]
    other = tab.context.new_page()
    other.goto(tab.nodes[0].url + "/ui/jobs")
    expect(other.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert page.evaluate("() => JSON.stringify(sessionStorage)").find(secret) < 0


def test_a_token_that_is_revoked_leads_to_the_sign_in_which_says_so(guarded: Guarded, tab: Tab) -> None:
    token = guarded.token("short", "editor")
    page = tab.sign_in(guarded.secrets["short"])
    tab.go("/ui/jobs")
    expect(page.locator("main")).to_contain_text("report")
    guarded.ask("DELETE", f"/v1/tokens/{token}")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.locator("main")).to_contain_text("oken")
    page.get_by_label("Token").fill(guarded.secrets["editor"])
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")


ACTIONS = ("Run now", "Pause", "Delete", "Edit", "Backfill", "Skip next", "Rerun", "Kill")


def offered(page: Page) -> set[str]:
    found: set[str] = set()
    for name in ACTIONS:
        for role in ("button", "link"):
            if page.locator("main").get_by_role(role, name=name).count():
                found.add(name)
    return found


def test_a_viewer_is_offered_nothing_that_changes(guarded: Guarded, tab: Tab) -> None:
    tab.sign_in(guarded.secrets["viewer"])
    for path in (
        "/ui/jobs",
        f"/ui/jobs/{guarded.jobs['billing/report']}",
        f"/ui/runs/{guarded.runs['report']}",
        "/ui/dead-letters",
        "/ui/queues",
        "/ui/cluster",
        "/ui/cluster/settings",
    ):
        page = tab.go(path)
        tab.settle()
        assert offered(page) == set(), path
        assert not page.locator("main").get_by_role("link", name="New job").count()


def test_an_editor_of_a_namespace_acts_there_and_sees_nothing_else(guarded: Guarded, tab: Tab) -> None:
    tab.expects(r"status of 40[34]")
    tab.sign_in(guarded.secrets["ana"])
    page = tab.go("/ui/jobs")
    expect(page.locator("main")).to_contain_text("report")
    expect(page.locator("main")).not_to_contain_text("secret-plan")
    page = tab.go(f"/ui/jobs/{guarded.jobs['billing/report']}")
    expect(page.locator("main").get_by_role("button", name="Run now")).to_be_visible()
    for path in (f"/ui/jobs/{guarded.jobs['data/secret-plan']}", f"/ui/runs/{guarded.runs['plan']}"):
        page = tab.go(path)
        tab.settle()
        expect(page.locator("main")).to_contain_text(re.compile("no such|not found|not for|another namespace", re.I))
        expect(page.locator("main")).not_to_contain_text("secret-plan")
        assert offered(page) == set()


def test_a_page_that_is_loaded_again_knows_the_other_members(guarded: Guarded, tab: Tab) -> None:
    page = tab.sign_in(guarded.secrets["viewer"])
    tab.go("/ui/preview")
    tab.expects("status of 401")
    with page.expect_response(lambda answer: answer.url.endswith("/v1/cluster") and answer.ok, timeout=15_000):
        page.reload()


def test_a_token_of_one_namespace_begins_there(guarded: Guarded, tab: Tab) -> None:
    page = tab.sign_in(guarded.secrets["ana"])
    tab.go("/ui/dead-letters")
    expect(page.get_by_label("Namespace")).to_have_value("billing")
    expect(page.locator("main")).not_to_contain_text("does not allow")
    for path in ("/ui/jobs/new", "/ui/crontab"):
        tab.go(path)
        expect(page.get_by_label("Namespace")).to_have_value("billing")
    expect(page.locator("main")).not_to_contain_text("may not")


def test_an_editor_of_one_namespace_reads_of_no_other_in_any_list(guarded: Guarded, tab: Tab) -> None:
    tab.expects(r"status of 40[34]")
    tab.sign_in(guarded.secrets["ana"])
    for path in ("/ui/", "/ui/runs", "/ui/dead-letters", "/ui/namespaces", "/ui/queues", "/ui/operations"):
        page = tab.go(path)
        tab.settle()
        expect(page.locator("main")).not_to_contain_text("secret-plan")
