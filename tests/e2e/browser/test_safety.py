"""What users typed and what runs print is text, wherever it is shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.world import EVIL, World
from tests.support.browser import HEIGHT, WIDTHS, Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
PRINTS = (
    r"printf '\033[31mred\033[0m <script>document.title=`run`</script><img src=x onerror=alert(1)>\n'; "
    r"printf '\033]8;;http://127.0.0.9/\033\\link\033]8;;\033\\ \033[2J\033[H\033]0;title\007after\n'; "
    r"printf 'bad \377\376 bytes\n'; exit 4"
)


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[World]:
    made = World(cluster)
    made.ask("PUT", "/v1/namespaces/evil", {"owner": EVIL[:64], "description": EVIL})
    made.ask("PUT", "/v1/queues/evil", {"max_running": 1})
    made.put(
        "evil/job",
        {
            "trigger": {"manual": True},
            "handler": {"shell": PRINTS},
            "description": EVIL,
            "owner": EVIL[:64],
            "labels": {"note": EVIL[:60]},
            "params": {"html": EVIL},
        },
    )
    made.runs["evil"] = made.run("evil/job", params={"html": EVIL})
    made.until(made.runs["evil"], "FAILED")
    return made


def test_nothing_that_was_typed_or_printed_becomes_more_than_text(world: World, tab: Tab) -> None:
    job, run = world.jobs["evil/job"], world.runs["evil"]
    for path in (
        "/ui/",
        "/ui/jobs",
        "/ui/jobs?owner=" + "%3Cscript%3E",
        f"/ui/jobs/{job}",
        f"/ui/jobs/{job}/edit",
        "/ui/runs",
        f"/ui/runs/{run}",
        "/ui/dead-letters",
        "/ui/namespaces",
        "/ui/namespaces/evil",
        "/ui/audit",
        "/ui/preview?cron=%3Cimg%20src=x%20onerror=alert(1)%3E",
        "/ui/nothing/%3Cscript%3Ealert(1)%3C/script%3E",
        "/ui/sign-in?to=javascript:alert(1)",
    ):
        page = tab.go(path)
        tab.settle()
        assert page.locator("main script, main img[onerror], main [onload], main iframe").count() == 0, path
        assert page.title() != "run", path
        assert not page.locator("a[href^='javascript']").count(), path


def test_a_run_shows_its_output_as_text_with_its_colours(world: World, tab: Tab) -> None:
    page = tab.go(f"/ui/runs/{world.runs['evil']}")
    main = page.locator("rs-output")
    expect(main).to_contain_text("<script>document.title=`run`</script>")
    expect(main).to_contain_text("after")
    expect(main).to_contain_text("bad \N{REPLACEMENT CHARACTER}")
    assert "\x1b" not in main.inner_text()
    assert not main.get_by_role("link", name="link", exact=True).count()
    red = main.get_by_text("red", exact=True).first
    plain = main.get_by_text("after").first
    colour = "(element) => getComputedStyle(element).color"
    assert red.evaluate(colour) != plain.evaluate(colour)


def test_a_sign_in_leads_nowhere_else(cluster: LocalCluster, tab: Tab) -> None:
    page = tab.go("/ui/sign-in?to=//127.0.0.9/ui")
    page.get_by_label("Token").fill("rs_x")
    tab.expects("status of 401")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert").or_(page.get_by_role("heading", level=1))).not_to_have_count(0)
    assert page.url.startswith(tab.nodes[0].url)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_longest_words_fit(world: World, tab: Tab, width: int) -> None:
    world.put(
        "evil/" + "n" * 128, {"trigger": {"manual": True}, "handler": {"shell": "true"}, "description": "d" * 400}
    )
    page = tab.go("/ui/jobs/" + world.jobs["evil/" + "n" * 128])
    page.set_viewport_size({"width": width, "height": HEIGHT})
    tab.settle()
    assert tab.overflow() <= 0
