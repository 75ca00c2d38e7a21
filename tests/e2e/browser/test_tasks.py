"""Seven things that somebody comes for who has only the page: at most four steps each, as docs/ui.md lists
them. A step is a click, or something typed or chosen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
STEPS_MAX = 4
BROKEN = r"printf 'Traceback (most recent call last):\n  File \"r.py\", line 1\nKeyError: 7\n' >&2; exit 1"
TICKS = "i=0; while :; do i=$((i+1)); echo tick-$i; sleep 0.1; done"


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[World]:
    made = World(cluster)
    report = {
        "handler": {
            "shell": f"case $RAFTSCHED_PARAMS in *2030-02*) true;; *) false;; esac && echo well || {{ {BROKEN}; }}"
        }
    }
    made.put("billing/nightly-report", {"trigger": {"cron": "30 2 * * *"}, "params": {"month": "2030-01"}, **report})
    made.put("tenant/loop", {"trigger": {"manual": True}, "handler": {"shell": TICKS}, "overlap": "allow"})
    made.put("tenant/later", {"trigger": {"in": "5h"}, "handler": {"shell": "true"}})
    made.runs["report"] = made.run("billing/nightly-report")
    made.until(made.runs["report"], "FAILED")
    yield made
    made.end()


class Steps:
    """A page, and how many steps were taken on it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.main = page.locator("main")
        self.taken = 0

    def _taken(self) -> None:
        self.taken += 1
        assert self.taken <= STEPS_MAX

    def menu(self, name: str) -> None:
        self.click(self.page.locator("#menu").get_by_role("link", name=name, exact=True))

    def click(self, what: Locator) -> None:
        what.click()
        self._taken()

    def fill(self, what: Locator, text: str) -> None:
        what.fill(text)
        self._taken()

    def choose(self, what: Locator, words: str) -> None:
        what.select_option(words)
        self._taken()


def test_why_the_report_of_last_night_failed(world: World, tab: Tab) -> None:
    steps = Steps(tab.go())
    steps.menu("Jobs")
    steps.fill(steps.page.get_by_role("searchbox", name="Name"), "report")
    steps.click(steps.page.locator(".col-last a").first)
    expect(steps.main.locator(".run-error")).to_have_text("exit code 1: KeyError: 7")
    # The error, the end of the output and the reasons are seen without a scroll.
    for title in ("Error", "Output", "Why"):
        expect(steps.main.get_by_role("heading", name=title, exact=True)).to_be_in_viewport()
    expect(steps.main.locator("rs-output")).to_contain_text("KeyError: 7")
    assert not axe.violations(steps.page)


def test_it_runs_again_with_another_month(world: World, tab: Tab) -> None:
    steps = Steps(tab.go(f"/ui/runs/{world.runs['report']}"))
    steps.click(steps.main.get_by_role("button", name="Run with other parameters"))
    given = steps.page.get_by_label("Parameters")
    expect(given).to_have_value('{\n  "month": "2030-01"\n}')
    steps.fill(given, '{"month": "2030-02"}')
    steps.click(steps.page.get_by_role("dialog").get_by_role("button", name="Run now"))
    expect(steps.main.get_by_role("heading", level=1)).to_contain_text("succeeded")
    assert world.runs["report"] not in steps.page.url
    expect(steps.main.locator("rs-output")).to_contain_text("well")
    expect(steps.main.locator(".run-error")).to_have_count(0)


def test_everything_of_a_tenant_stops(world: World, tab: Tab) -> None:
    runs = [world.run("tenant/loop") for _ in range(3)]
    for run in runs:
        world.until(run, "RUNNING")
    steps = Steps(tab.go())
    steps.menu("Namespaces")
    steps.click(steps.main.get_by_role("link", name="tenant", exact=True))
    steps.click(steps.main.get_by_role("button", name="Stop everything"))
    dialog = steps.page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 runs have not ended")
    assert not axe.violations(steps.page)
    steps.click(dialog.get_by_role("button", name="Stop", exact=True))
    for run in runs:
        world.until(run, "KILLED")
    jobs = [world.jobs["tenant/loop"], world.jobs["tenant/later"]]
    world.cluster.wait(
        "all jobs of the tenant to be paused",
        lambda: all(world.ask("GET", f"/v1/jobs/{job}")["state"] == "SUSPENDED" for job in jobs),
    )


def test_a_crontab_is_moved(world: World, tab: Tab) -> None:
    steps = Steps(tab.go())
    steps.menu("Jobs")
    steps.click(steps.main.get_by_role("link", name="From a crontab"))
    steps.fill(steps.main.locator("#text"), "0 3 * * * /usr/local/bin/backup --all\n")
    steps.click(steps.main.get_by_role("button", name="Create"))
    world.cluster.wait(
        "the job of the line",
        lambda: any(one["trigger"].get("cron") == "0 3 * * *" for one in world.ask("GET", "/v1/jobs")["items"]),
    )


def test_what_is_due_tonight(world: World, tab: Tab) -> None:
    steps = Steps(tab.go())
    due = steps.main.locator(".card", has=steps.page.get_by_role("heading", name="Due next"))
    steps.click(due.get_by_role("link", name="All", exact=True))
    names = steps.main.locator(".grid-body .col-name a")
    expect(names.filter(has_text="nightly-report")).to_be_visible()
    times = steps.main.locator(".grid-body .col-next time")
    shown = [times.nth(at).get_attribute("datetime") or "" for at in range(times.count())]
    assert shown
    assert shown == sorted(shown)
    expect(steps.main.get_by_role("columnheader", name="Next")).to_have_attribute("aria-sort", "ascending")


def test_who_deleted_a_job(world: World, tab: Tab) -> None:
    gone = world.put("billing/gone", {"trigger": {"manual": True}, "handler": {"shell": "true"}})
    world.ask("DELETE", f"/v1/jobs/{gone}")
    del world.jobs["billing/gone"]
    steps = Steps(tab.go())
    steps.menu("Audit")
    steps.choose(steps.main.get_by_label("Kind"), "changes of jobs")
    row = steps.main.get_by_role("row").filter(has_text="gone").first  # the newest
    expect(row).to_contain_text("jobs_delete")
    expect(row).to_contain_text("anonymous")


def test_a_live_run_is_followed(world: World, tab: Tab) -> None:
    world.put("billing/live", {"trigger": {"manual": True}, "handler": {"shell": TICKS}})
    run = world.run("billing/live")
    world.until(run, "RUNNING")
    steps = Steps(tab.go())
    running = steps.main.locator(".card", has=steps.page.get_by_role("heading", name="Running now"))
    steps.click(running.get_by_role("listitem").filter(has_text="live").get_by_role("link").last)
    output = steps.main.locator("rs-output")
    expect(output).to_contain_text("live")
    expect(output).to_contain_text("tick-9")
    expect(steps.main.get_by_role("heading", name="Output")).to_be_in_viewport()
    world.ask("POST", f"/v1/instances/{run}/kill", {})
