"""What every page has: files of its own only, nothing inline, and the same page at each path below /ui/."""

from __future__ import annotations

import re

from playwright.sync_api import Route, expect

from tests.support.browser import Tab
from tests.support.cluster import Cluster


def test_the_shell_has_nothing_inline_and_names_only_its_own_files(cluster: Cluster) -> None:
    reply = cluster.nodes[0].request("GET", "/ui/")
    assert reply.status == 200
    html = reply.body.decode()
    assert not re.findall(r"<script(?![^>]*\ssrc=)", html)
    assert not re.findall(r"<style|\sstyle=|\son\w+=|javascript:", html)
    named = re.findall(r'(?:src|href)="([^"]*)"', html)
    assert named
    assert all(re.match(r"#|/(?!/)", name) for name in named), named


def test_opens_without_a_fault(tab: Tab) -> None:
    page = tab.go("/ui/")
    assert page.title()


def test_a_page_whose_node_was_upgraded_says_that_there_is_a_new_version(cluster: Cluster, tab: Tab) -> None:
    """The files of its version are gone before all of them came."""
    tab.expects("status of 404")
    tab.context.route("**/pages.js", lambda route: route.fulfill(status=404, body=""))
    tab.context.route("**/start.js", _gone)
    page = tab.go("/ui/tokens")
    expect(page.get_by_role("heading", level=1)).to_have_text("A new version of this page is here")
    tab.context.unroute("**/pages.js")
    tab.context.unroute("**/start.js")
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tokens")


def _gone(route: Route) -> None:
    """It came when the page was loaded, and is not there when the page looks for it."""
    if route.request.method == "HEAD":
        route.fulfill(status=404)
    else:
        route.continue_()
