"""What the page does when nodes go: it says so, goes on at another, and heals without being loaded anew."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import World
from tests.support.browser import Tab
from tests.support.cluster import Cluster, NodeProcess

pytestmark = pytest.mark.e2e
MANUAL = {"trigger": {"manual": True}, "handler": {"shell": "true"}}
LINES = 400
WHOLE_RUN_MS = 150_000  # runs give way to everything else: 10 s on a machine with nothing else to do
# A line each 25 ms, numbered: what is missing or comes twice can be named.
COUNTING = f"i=0; while [ $i -lt {LINES} ]; do echo line-$i.; i=$((i+1)); sleep 0.025; done"


@pytest.fixture
def tab(open_tab: Opens) -> Tab:
    """Nodes that do not answer are what these tests are about."""
    opened = open_tab()
    opened.expects(r"net::ERR_", r"status of 50[234]")
    return opened


def mark(page: Page) -> None:
    """A later `marked` says that the page was not loaded anew."""
    page.evaluate("() => { window.marked = true; }")


def marked(page: Page) -> bool:
    return bool(page.evaluate("() => window.marked === true"))


@pytest.fixture(scope="module")
def cluster(processes: Cluster) -> Cluster:
    return processes


def again(cluster: Cluster, *nodes: NodeProcess) -> None:
    for node in nodes:
        if not node.alive:
            node.start()
    cluster.wait_ready()
    cluster.leader()


def test_the_page_goes_on_at_another_node_when_its_own_stops(cluster: Cluster, tab: Tab) -> None:
    world = World(cluster)
    world.put("default/before", MANUAL)
    own = cluster.followers()[0]
    page = tab.go("/ui/jobs", own)
    expect(page.locator("main")).to_contain_text("before")
    mark(page)
    own.terminate()
    try:
        world.put("default/after-the-stop", MANUAL)
        expect(page.locator("main")).to_contain_text("after-the-stop")
        expect(page.locator("rs-banner")).to_contain_text("does not answer")
        page.get_by_role("link", name="Queues").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
        page.get_by_role("link", name="Jobs").first.click()
        page.locator("main").get_by_role("link", name="after-the-stop").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("after-the-stop")
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("main")).to_contain_text("suspended")
        assert marked(page)
    finally:
        again(cluster, own)


def test_live_output_is_whole_though_the_leader_is_killed(cluster: Cluster, tab: Tab) -> None:
    world = World(cluster)
    job = {"trigger": {"manual": True}, "handler": {"shell": COUNTING}, "timeout": "5m"}
    world.put("default/counting", job)
    run = world.run("default/counting")
    world.until(run, "RUNNING")
    where = world.ask("GET", f"/v1/instances/{run}")["node"]
    if cluster.leader().id == where:  # its run would be lost with it
        other = next(node for node in cluster.nodes if node.id != where)
        world.ask("POST", "/v1/cluster/leader", {"to": other.id})
        cluster.wait("another leader", lambda: cluster.leader().id == other.id)
    leader = cluster.leader()
    page = tab.go(f"/ui/runs/{run}", leader)
    expect(page.locator("main")).to_contain_text(re.compile(r"line-([2-9]\d|\d{3})\."))  # it draws the newest
    mark(page)
    leader.kill()
    try:
        expect(page.locator("main")).to_contain_text(f"line-{LINES - 1}.", timeout=WHOLE_RUN_MS)
        expect(page.locator("main")).to_contain_text("succeeded")
        assert marked(page)
        whole = World(cluster).cluster.alive()[0].request("GET", f"/v1/instances/{run}/output").body.decode()
        assert whole == "".join(f"line-{n}.\n" for n in range(LINES))
        assert shown(page) == whole
    finally:
        again(cluster, leader)


def shown(page: Page) -> str:
    """The whole output as the page has it; it draws a part."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    return download.value.path().read_text()


def test_without_a_leader_reading_goes_on_and_says_as_of_when(cluster: Cluster, tab: Tab) -> None:
    world = World(cluster)
    world.put("default/still-there", MANUAL)
    own = cluster.followers()[0]
    page = tab.go("/ui/jobs", own)
    expect(page.locator("main")).to_contain_text("still-there")
    mark(page)
    others = [node for node in cluster.nodes if node is not own]
    for node in others:
        node.kill()
    try:
        expect(page.locator("rs-banner")).to_contain_text("No node leads now")
        expect(page.locator("main")).to_contain_text("still-there")
    finally:
        again(cluster, *others)
    expect(page.locator("rs-banner")).not_to_contain_text("No node leads now")
    world.put("default/healed", MANUAL)
    expect(page.locator("main")).to_contain_text("healed")
    assert marked(page)


def test_a_lost_connection_is_said_and_healed(cluster: Cluster, tab: Tab) -> None:
    world = World(cluster)
    world.put("default/kept-on-screen", MANUAL)
    page = tab.go("/ui/jobs")
    expect(page.locator("main")).to_contain_text("kept-on-screen")
    mark(page)
    for node in cluster.nodes:
        node.kill()
    try:
        expect(page.locator("rs-banner")).to_contain_text("No node answers")
        expect(page.locator("main")).to_contain_text("kept-on-screen")
    finally:
        again(cluster, *cluster.nodes)
    expect(page.locator("rs-banner")).not_to_contain_text("No node answers")
    world.put("default/after-all", MANUAL)
    expect(page.locator("main")).to_contain_text("after-all")
    assert marked(page)


def test_a_node_that_was_upgraded_meanwhile_is_said(cluster: Cluster, tab: Tab) -> None:
    """Its files have another address then."""
    tab.expects("status of 404")
    page = tab.go("/ui/jobs")
    tab.context.route("**/app.js", lambda route: route.fulfill(status=404))
    for node in cluster.nodes:
        node.kill()
    again(cluster, *cluster.nodes)
    expect(page.locator("rs-banner")).to_contain_text("A new version of this page is here")
    tab.context.unroute("**/app.js")
    page.get_by_role("link", name="reload").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect(page.locator("rs-banner")).not_to_contain_text("A new version")
