"""The page of a run, live and afterwards, and the dead letters."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.world import World
from tests.support import axe
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
TICKS = "i=0; while :; do i=$((i+1)); echo tick-$i; echo warn-$i >&2; sleep 0.1; done"


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> World:
    return World(cluster)


def job(shell: str, **more: object) -> dict[str, object]:
    return {"trigger": {"manual": True}, "handler": {"shell": shell}, **more}


def test_output_comes_as_it_is_printed_and_the_run_is_killed(world: World, tab: Tab) -> None:
    world.put("runs/ticking", job(TICKS))
    run = world.run("runs/ticking")
    page = tab.go(f"/ui/runs/{run}", tab.nodes[1])
    output = page.locator("rs-output")
    expect(output).to_contain_text("tick-5")
    expect(output).to_contain_text("warn-5")
    page.get_by_label("Stream").select_option("stderr")
    expect(output).not_to_contain_text("tick-")
    expect(output).to_contain_text("warn-9")
    page.get_by_label("Stream").select_option("stdout")
    expect(output).not_to_contain_text("warn-")
    page.get_by_role("button", name="Kill").click()
    dialog = page.get_by_role("dialog")
    assert not axe.violations(page)
    dialog.get_by_role("button", name="Kill").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("killed")
    expect(page.get_by_role("button", name="Kill")).to_have_count(0)


def test_output_is_searched_wrapped_and_downloaded(world: World, tab: Tab) -> None:
    world.put("runs/long", job("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i of many; done"))
    run = world.run("runs/long")
    world.until(run, "SUCCEEDED")
    page = tab.go(f"/ui/runs/{run}")
    output = page.locator("rs-output")
    expect(output).to_contain_text("line 20000 of many")
    # A part of the lines is in the document, however many there are.
    assert output.locator(".output-row").count() < 500
    page.get_by_label("Search the output").fill("line 777 ")
    page.keyboard.press("Enter")
    expect(output.locator(".is-hit")).to_be_visible()
    expect(output).to_contain_text("line 777 of many")
    page.get_by_role("button", name="Wrap").click()
    page.get_by_role("button", name="Numbers").click()
    assert not axe.violations(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    text = download.value.path().read_text()
    assert text == "".join(f"line {n} of many\n" for n in range(1, 20_001))


def test_what_was_left_out_of_a_long_output_is_not_offered(world: World, tab: Tab) -> None:
    world.put("runs/longer", job(f"seq -f '%.0f {'x' * 42}' 1 300000"))  # 15 MB, of which a node keeps 1 MiB
    run = world.run("runs/longer")
    world.until(run, "SUCCEEDED")
    page = tab.go(f"/ui/runs/{run}")
    output = page.locator("rs-output")
    expect(output).to_contain_text("300000 x")
    output.get_by_role("button", name="Load 524 kB").click()
    expect(output.locator(".output-earlier")).to_have_count(0)
    expect(output).to_contain_text("in the middle were not kept")
    expect(output).to_contain_text("1.0 MB here")


def test_why_tells_each_step_and_what_a_run_waits_for(world: World, tab: Tab) -> None:
    world.ask("PUT", "/v1/queues/narrow", {"max_running": 1})
    world.put("runs/narrow", job(TICKS, queue="narrow", overlap="allow"))
    first, second = world.run("runs/narrow"), world.run("runs/narrow")
    world.until(first, "RUNNING")
    page = tab.go(f"/ui/runs/{second}")
    expect(page.locator("main")).to_contain_text("Waits now")
    expect(page.locator("main")).to_contain_text("narrow")
    world.ask("POST", f"/v1/instances/{first}/kill", {})
    expect(page.get_by_role("heading", level=1)).to_contain_text("running")
    expect(page.locator("main")).not_to_contain_text("Waits now")
    expect(page.locator(".story")).to_contain_text("ttempt 1 started")
    expect(page.locator("rs-output")).to_contain_text("tick-2")
    world.ask("POST", f"/v1/instances/{second}/kill", {})


def test_a_run_is_run_again(world: World, tab: Tab) -> None:
    world.put("runs/again", job("echo once more"))
    run = world.run("runs/again")
    world.until(run, "SUCCEEDED")
    page = tab.go(f"/ui/runs/{run}")
    page.get_by_role("button", name="Rerun").click()
    page.get_by_role("dialog").get_by_role("button", name="Rerun").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    world.cluster.wait(
        "two runs",
        lambda: (
            len(world.ask("GET", f"/v1/jobs/{world.jobs['runs/again']}/instances")["items"]) == 2
            or world.ask("GET", f"/v1/instances/{run}")["attempt"] == 2
        ),
    )


def test_dead_letters_are_requeued_by_their_cause(world: World, tab: Tab) -> None:
    mend = world.cluster.directory / "mended"
    world.put("dead/one", job(f"test -e {mend} || {{ echo no such table >&2; exit 2; }}", overlap="allow"))
    world.put("dead/other", job("echo of another cause >&2; exit 9", overlap="allow"))
    runs = [world.run("dead/one") for _ in range(3)] + [world.run("dead/other")]
    for run in runs:
        world.until(run, "FAILED")
    page = tab.go("/ui/dead-letters?namespace=dead")
    main = page.locator("main")
    expect(main).to_contain_text("4 dead letters of 2 causes")
    expect(main).to_contain_text("no such table")
    mend.touch()
    cause = (
        main.locator("li, section, article, div")
        .filter(has_text="no such table")
        .filter(has=page.get_by_role("button", name="Requeue", exact=True))
        .last
    )
    cause.get_by_role("button", name="Show", exact=True).click()
    assert not axe.violations(page)
    cause.get_by_role("button", name="Requeue", exact=True).first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3")
    dialog.get_by_role("button", name="Requeue").click()
    for run in runs[:3]:
        world.until(run, "SUCCEEDED")
    expect(main).not_to_contain_text("no such table")
    expect(main).to_contain_text("of another cause")
    page = tab.go(f"/ui/runs/{runs[3]}")
    page.get_by_role("button", name="Discard").click()
    page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    expect(page.get_by_role("button", name="Discard")).to_have_count(0)
    page = tab.go("/ui/dead-letters?namespace=dead")
    expect(main).not_to_contain_text("of another cause")
