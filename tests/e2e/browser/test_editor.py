"""Jobs made and changed in the page: by the form, by JSON, from a crontab; what is wrong, lost or changed meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import World
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
REFUSED = r"status of (4(04|09|12|22)|504)"
JOB = {"trigger": {"cron": "0 2 * * *"}, "handler": {"shell": "true"}}


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[World]:
    made = World(cluster)
    yield made
    made.end()


@pytest.fixture
def tab(open_tab: Opens) -> Tab:
    """What is typed is checked, and some of it is refused."""
    opened = open_tab()
    opened.expects(REFUSED)
    return opened


def save(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def shown_json(page: Page) -> dict[str, object]:
    return dict(json.loads(page.locator("#json").input_value()))


def test_a_job_is_made_by_the_form(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs/new")
    expect(page.get_by_text("at 02:00 every day, Europe/Berlin time")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("Not A Name")
    expect(page.locator("#f-name-error")).to_contain_text("breaks the rule for names")
    expect(page.locator("#json-errors")).to_contain_text("/name breaks the rule")
    expect(page.get_by_role("button", name="Create job")).to_be_disabled()
    page.get_by_label("Name", exact=True).fill("by-form")
    page.get_by_label("Command").fill("echo <b>made</b>")
    page.get_by_role("button", name="Every", exact=True).click()
    page.get_by_label("Every", exact=True).fill("90s")
    expect(page.get_by_text("every 1m30s")).to_be_visible()
    page.get_by_text("When it fails").click()
    page.get_by_label("Retry after").fill("5s, 1m")
    expect(page.locator("#f-timeout")).to_have_attribute("placeholder", "5m")
    save(page, "Create job")
    page.wait_for_url(re.compile("/ui/jobs/[0-9a-z]{13}$"))
    job = world.ask("GET", "/v1/namespaces/default/jobs/by-form")
    assert (job["trigger"], job["retry"]["delays"]) == ({"every": "90s"}, ["5s", "1m"])
    assert job["handler"] == {"shell": "echo <b>made</b>"}


def test_form_and_json_are_one_and_unknown_fields_stay(tab: Tab) -> None:
    page = tab.go("/ui/jobs/new")
    page.locator("#json").fill(json.dumps({**JOB, "tomorrow": {"x": [1]}, "priority": 12}))
    expect(page.locator("#json-errors")).to_contain_text("/tomorrow is not a known field")
    expect(page.locator("details", has_text="Where it runs")).to_have_attribute("open", "")
    expect(page.locator("#f-priority")).to_have_value("12")
    page.locator("#f-priority").fill("7")
    expect(page.locator("#json")).to_have_value(re.compile('"priority": 7'))
    assert shown_json(page) == {**JOB, "tomorrow": {"x": [1]}, "priority": 7}
    page.locator("#json").fill('{"trigger": ')
    expect(page.get_by_text("The JSON cannot be read")).to_be_visible()
    expect(page.locator("#f-priority")).to_have_value("7")


def test_several_jobs_at_once_have_a_result_each(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs/new")
    jobs = [{**JOB, "name": "several-1"}, {**JOB, "name": "several-2", "timeout": "soon"}]
    page.locator("#json").fill("\n".join(map(json.dumps, jobs)))
    save(page, "Create them")
    expect(page.get_by_text("1 job created, 1 refused")).to_be_visible()
    expect(page.get_by_text("/timeout is not a duration")).to_be_visible()
    assert world.ask("GET", "/v1/namespaces/default/jobs/several-1")["name"] == "several-1"


def test_an_edit_sends_what_changed_and_says_what_somebody_else_did(world: World, tab: Tab) -> None:
    job = world.ask("POST", "/v1/jobs", {**JOB, "name": "edited", "timeout": "10m", "owner": "ana"})
    page = tab.go(f"/ui/jobs/{job['id']}/edit")
    expect(page.get_by_text("Nothing is changed.")).to_be_visible()
    page.get_by_label("Owner").fill("ben")
    expect(page.get_by_label("curl", exact=True)).to_contain_text('-d \'{"owner":"ben"}\'')
    world.ask("PATCH", f"/v1/jobs/{job['id']}", {"timeout": "20m", "owner": "chloé"})
    save(page, "Save")
    notice = page.get_by_role("alert", name="Changed meanwhile")
    expect(notice).to_contain_text('timeout: "10m" → "20m"')
    expect(notice).to_contain_text('owner: "ana" → "chloé" (you changed it, too: yours is kept)')
    assert world.ask("GET", f"/v1/jobs/{job['id']}")["owner"] == "chloé"
    save(page, "Save")
    page.wait_for_url(re.compile("/ui/jobs/[0-9a-z]{13}$"))
    after = world.ask("GET", f"/v1/jobs/{job['id']}")
    assert (after["owner"], after["timeout"], after["revision"]) == ("ben", "20m", 3)


def test_a_create_whose_answer_is_lost_is_sent_again_under_its_key(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs/new")
    keys: list[str | None] = []
    lost = {"code": "unknown-outcome", "title": "Outcome unknown", "status": 504}

    def lose(route: Route) -> None:
        if route.request.method != "POST":
            route.fallback()
            return
        keys.append(route.request.header_value("Idempotency-Key"))
        if len(keys) > 1:
            route.fallback()
            return
        route.fetch()  # it is done, and nobody hears of it
        route.fulfill(status=504, json=lost, headers={"Access-Control-Allow-Origin": "*"})

    page.route(re.compile("/v1/jobs$"), lose)
    page.get_by_label("Command").fill("true")
    save(page, "Create job")
    page.wait_for_url(re.compile("/ui/jobs/[0-9a-z]{13}$"))
    assert len(keys) == 2
    assert keys[0] == keys[1]
    made = world.ask("GET", "/v1/jobs?limit=1000")["items"]
    assert sum(job["id"] == page.url.rpartition("/")[2] for job in made) == 1
    assert len([job for job in made if job["name"] is None]) == 1


def test_a_job_is_copied_with_its_next_name(world: World, tab: Tab) -> None:
    job = world.ask("POST", "/v1/jobs", {**JOB, "name": "first", "namespace": "copies", "priority": 8})
    page = tab.go(f"/ui/jobs/new?from={job['id']}")
    expect(page.get_by_text("✓ can be created")).to_be_visible()
    save(page, "Create job")
    page.wait_for_url(re.compile("/ui/jobs/[0-9a-z]{13}$"))
    copy = world.ask("GET", "/v1/namespaces/copies/jobs/first-copy")
    assert (copy["priority"], copy["trigger"]) == (8, JOB["trigger"])


def test_what_was_typed_is_not_lost(world: World, tab: Tab) -> None:
    page = tab.go("/ui/jobs/new")
    page.get_by_label("Description").fill("half of it")
    page.get_by_role("link", name="Queues", exact=True).click()
    page.get_by_role("button", name="Cancel").click()
    page.wait_for_url("**/ui/jobs/new")  # the address of the link goes before the page asks, and comes back
    expect(page.get_by_label("Description")).to_have_value("half of it")
    page.on("dialog", lambda asked: asked.accept())
    page.reload()
    expect(page.get_by_text("and did not send.")).to_be_visible()
    expect(page.get_by_label("Description")).to_have_value("half of it")
    page.get_by_role("link", name="Queues", exact=True).click()
    page.get_by_role("button", name="Leave").click()
    page.wait_for_url("**/ui/queues")
    tab.go("/ui/jobs/new")
    expect(page.get_by_label("Description")).to_have_value("")


def test_what_is_typed_without_a_connection_is_checked_when_it_is_back(tab: Tab) -> None:
    tab.expects("ERR_INTERNET_DISCONNECTED")
    page = tab.go("/ui/jobs/new")
    page.get_by_label("Command").fill("true")
    expect(page.get_by_text("✓ can be created")).to_be_visible()
    page.context.set_offline(True)
    page.get_by_label("Name", exact=True).fill("Not A Name")
    expect(page.locator("rs-banner")).not_to_be_empty()
    page.context.set_offline(False)
    expect(page.locator("#f-name-error")).to_contain_text("breaks the rule for names")
    expect(page.get_by_label("Command")).to_have_value("true")


def test_a_crontab_becomes_jobs_line_by_line(world: World, tab: Tab) -> None:
    page = tab.go("/ui/crontab")
    text = "MAILTO=ops@example.com\n0 2 * * * /usr/bin/backup --all\n@reboot up\n15 * * * * echo <i>x</i>\n"
    page.locator("#text").fill(text)
    page.get_by_label("Namespace").fill("tabs")
    expect(page.get_by_text("2 jobs · 1 refused · read without a user column")).to_be_visible()
    expect(page.get_by_text("nothing is mailed")).to_be_visible()
    expect(page.get_by_text("@reboot cannot be imported")).to_be_visible()
    page.get_by_label("Create line 2").uncheck()
    save(page, "Create 1 job")
    expect(page.get_by_text("1 job created")).to_be_visible()
    (job,) = world.ask("GET", "/v1/jobs?namespace=tabs")["items"]
    assert job["handler"]["shell"] == "echo <i>x</i>"


def test_a_preview_says_words_times_and_a_month(world: World, tab: Tab) -> None:
    page = tab.go("/ui/preview")
    page.get_by_label("Cron", exact=True).fill("30 2 * * *")
    expect(page.get_by_text("at 02:30 every day, Europe/Berlin time")).to_be_visible()
    page.get_by_label("Another time zone").fill("Asia/Tokyo")
    page.get_by_role("button", name="Add a zone").click()
    expect(page.get_by_role("columnheader", name="Asia/Tokyo")).to_be_visible()
    page.get_by_role("button", name="The next month").click()
    expect(page.locator(".month")).to_contain_text(re.compile(r"· (28|29|30|31) times"))
    page.get_by_label("Cron", exact=True).fill("61 * * * *")
    expect(page.get_by_text("out of range; allowed are 0-59")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Cron", exact=True)).to_have_value("61 * * * *")
