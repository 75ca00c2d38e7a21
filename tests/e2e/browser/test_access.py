"""The pages of tokens and of the audit, from a cluster that needs no token to one that does; and what the page takes a
token to be good for, held against what the API lets it do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from raftsched.api.routes import ROUTES
from scripts.make_page_roles import PATH, render
from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import World
from tests.support.browser import Tab
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
MANUAL = {"trigger": {"manual": True}, "handler": {"shell": "true"}}


@pytest.fixture
def tab(open_tab: Opens) -> Tab:
    opened = open_tab()
    opened.expects(r"status of (401|422)")
    return opened


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> dict[str, str]:
    """The admin that the first test makes: `secret`."""
    return {}


def row(page: Page, name: str) -> Locator:
    return page.get_by_role("row").filter(has_text=name)


def create(page: Page, name: str, role: str, **more: str) -> str:
    """Makes a token by the page's form, and returns its secret."""
    page.get_by_role("button", name="New token").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("Role", exact=True).select_option(role)
    if "namespaces" in more:
        form.get_by_label("Namespaces").fill(more["namespaces"])
    if "grant" in more:
        form.get_by_role("button", name="Add a namespace").click()
        form.get_by_label("Namespace 1", exact=True).fill(more["grant"])
        form.get_by_label("Role in namespace 1").select_option(more["as"])
    form.get_by_role("button", name="Create").click()
    secret = page.locator("code.secret").inner_text()
    page.get_by_role("button", name="I have it").click()
    return secret


def test_tokens_are_turned_on_from_the_page_which_goes_on(
    cluster: LocalCluster, tab: Tab, admin: dict[str, str]
) -> None:
    # A node may cut a stream that nobody known reads, before the page reads it with its token.
    tab.expects("ERR_INCOMPLETE_CHUNKED_ENCODING.*/v1/changes")
    page = tab.go("/ui/tokens")
    expect(page.locator("main")).to_contain_text("Requests need no token")
    loose = create(page, "made-by-anybody", "admin")
    page.get_by_role("button", name="Need tokens").click()
    admin["secret"] = page.locator("code.secret").inner_text()
    page.get_by_label("Name of the admin").fill("root")
    page.get_by_role("dialog").get_by_role("button", name="Copy the secret").click()
    assert page.evaluate("() => navigator.clipboard.readText()") == admin["secret"]
    page.get_by_label("I have copied the secret").check()
    page.get_by_role("button", name="Turn tokens on").click()
    expect(page.locator("main")).to_contain_text("Requests need a token")
    expect(page.locator("#top")).to_contain_text("root")
    for node in cluster.nodes:
        bearer = {"Authorization": f"Bearer {admin['secret']}"}
        cluster.wait("the admin everywhere", lambda: node.request("GET", "/v1/tokens", None, bearer).status == 200)  # noqa: B023
    refused = cluster.nodes[0].request("GET", "/v1/jobs", None, {"Authorization": f"Bearer {loose}"})
    assert refused.status == 401  # what anybody could make while none was needed counts for nothing
    page.get_by_label("also expired and revoked").check()
    expect(row(page, "made-by-anybody")).to_contain_text("revoked")


def test_a_token_is_made_shown_once_and_revoked(cluster: LocalCluster, tab: Tab, admin: dict[str, str]) -> None:
    tab.sign_in(admin["secret"])
    page = tab.go("/ui/tokens")
    secret = create(page, "robot", "viewer", grant="billing", **{"as": "editor"})
    expect(row(page, "robot")).to_contain_text("editor in billing")
    assert secret not in page.content()
    bearer = {"Authorization": f"Bearer {secret}"}
    who = json.loads(cluster.nodes[0].request("GET", "/v1/whoami", None, bearer).body)
    assert (who["role"], who["grants"]) == ("viewer", [{"namespace": "billing", "role": "editor"}])
    row(page, "robot").get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row(page, "robot")).to_have_count(0)
    assert cluster.nodes[0].request("GET", "/v1/whoami", None, bearer).status == 401


def test_what_is_wrong_with_a_token_is_said_where_it_is(tab: Tab, admin: dict[str, str]) -> None:
    tab.sign_in(admin["secret"])
    page = tab.go("/ui/tokens")
    page.get_by_role("button", name="New token").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Name", exact=True).fill("Not A Name")
    form.get_by_label("Namespaces").fill("billing")
    form.get_by_label("Role", exact=True).select_option("admin")
    form.get_by_role("button", name="Create").click()
    expect(form.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
    expect(form.locator("#token-name-error")).to_contain_text("1 to 64 characters")
    expect(form.locator("#token-namespaces-error")).to_contain_text("an admin can make tokens for all")
    form.get_by_role("button", name="Cancel").click()
    expect(row(page, "Not A Name")).to_have_count(0)


def test_the_audit_is_filtered_by_its_address_and_shows_what_comes(
    cluster: LocalCluster, tab: Tab, admin: dict[str, str]
) -> None:
    world = World(cluster, admin["secret"])
    world.put("billing/first", MANUAL)
    world.put("data/other", MANUAL)
    tab.sign_in(admin["secret"])
    page = tab.go("/ui/audit")
    expect(row(page, "data/jobs/other")).to_be_visible()
    page.get_by_label("Namespace", exact=True).fill("billing")
    expect(row(page, "data/jobs/other")).to_have_count(0)
    expect(row(page, "billing/jobs/first")).to_be_visible()
    assert page.url.endswith("/ui/audit?namespace=billing")
    world.put("billing/second", MANUAL)
    expect(page.locator("tbody tr").first).to_contain_text("billing/jobs/second")
    page.reload()
    expect(page.get_by_label("Namespace", exact=True)).to_have_value("billing")
    expect(page.locator("tbody tr").first).to_contain_text("billing/jobs/second")
    expect(row(page, "data/jobs/other")).to_have_count(0)
    link = page.locator("tbody tr").first.get_by_role("link")
    assert link.get_attribute("href") == f"/ui/jobs/{world.jobs['billing/second']}"


def test_older_records_follow_as_one_scrolls(cluster: LocalCluster, tab: Tab, admin: dict[str, str]) -> None:
    world = World(cluster, admin["secret"])
    for number in range(230):
        world.ask("PUT", f"/v1/namespaces/many-{number:03}", {"owner": "ana"})
    tab.sign_in(admin["secret"])
    page = tab.go("/ui/audit?operation=namespaces_put")
    expect(row(page, "many-229")).to_be_visible()
    expect(row(page, "many-000")).to_have_count(0)
    for known in (100, 200):
        expect(page.locator("tbody tr")).to_have_count(known)
        page.locator(".more").scroll_into_view_if_needed()
    expect(page.locator("main")).to_contain_text("230 records; there are no more")
    names = page.locator("tbody td:nth-child(3)").all_inner_texts()
    assert names == [f"/v1/namespaces/many-{number:03}" for number in reversed(range(230))]


def test_the_chain_and_the_refusals_are_shown(cluster: LocalCluster, tab: Tab, admin: dict[str, str]) -> None:
    bearer = {"Authorization": f"Bearer {admin['secret']}"}
    cluster.nodes[0].request("GET", "/v1/secrets", None, {"Authorization": "Bearer rs_nobody"})
    tab.sign_in(admin["secret"])
    page = tab.go("/ui/audit")
    page.get_by_role("tab", name="Chain").click()
    head = json.loads(cluster.nodes[0].request("GET", "/v1/audit/chain", None, bearer).body)["change"]["head"]
    expect(page.locator("main")).to_contain_text(head)
    page.get_by_role("tab", name="Refusals").click()
    expect(row(page, "nobody known").first).to_contain_text("401")
    assert page.url.endswith("?tab=refusals")


CALLERS: dict[str, dict[str, Any]] = {
    "viewer": {"role": "viewer"},
    "editor": {"role": "editor"},
    "operator": {"role": "operator"},
    "admin": {"role": "admin"},
    "editor of billing": {"role": "editor", "namespaces": ["billing"]},
    "operator of billing": {"role": "operator", "namespaces": ["billing"]},
    "editor in billing": {"role": "viewer", "grants": [{"namespace": "billing", "role": "editor"}]},
    "operator in billing": {"role": "viewer", "grants": [{"namespace": "billing", "role": "operator"}]},
    "of data, in billing": {
        "role": "viewer",
        "namespaces": ["data"],
        "grants": [{"namespace": "billing", "role": "operator"}],
    },
}
_MAY = """async ([url, who, asked]) => {
  const { session } = await import(url);
  session.who = who;
  return asked.map(([operation, namespace]) => session.may(operation, namespace ?? undefined));
}"""


def test_the_page_takes_a_token_to_be_good_for_what_it_is(
    cluster: LocalCluster, tab: Tab, admin: dict[str, str]
) -> None:
    """Reads and changes that name a namespace or none, asked for without a body that could change anything: the API
    answers 403 or not."""
    world = World(cluster, admin["secret"])
    asked = [
        (route.operation_id, namespace, path)
        for route in ROUTES
        for namespace, path in _named(route.method, route.path, route.operation.query)
    ]
    tab.sign_in(admin["secret"])
    tab.context.route("**/sources/core/*.js", _source)
    wrong = []
    for number, (name, caller) in enumerate(CALLERS.items()):
        made = world.ask("POST", "/v1/tokens", {"name": f"caller-{number}", **caller})
        bearer = {"Authorization": f"Bearer {made['secret']}"}
        node = cluster.nodes[0]
        who = json.loads(node.request("GET", "/v1/whoami", None, bearer).body)
        may = tab.page.evaluate(
            _MAY, ["/ui/assets/sources/core/session.js", who, [[one, namespace] for one, namespace, _ in asked]]
        )
        for (operation, namespace, path), offered in zip(asked, may, strict=True):
            allowed = node.request("GET", path, None, bearer).status != 403
            if allowed is not offered:
                wrong.append(f"{name}: {operation} of {namespace} is {'' if allowed else 'not '}allowed")
    assert not wrong, "\n".join(wrong)


def _source(route: Route) -> None:
    """A module as it is, but with the roles of all operations."""
    name = route.request.url.rpartition("/")[2]
    body = render(every=True) if name == PATH.name else (PATH.parent / name).read_text()
    route.fulfill(status=200, content_type="text/javascript", body=body)


def _named(method: str, path: str, query: tuple[str, ...]) -> list[tuple[str | None, str]]:
    """Namespaces and the addresses that name them, of a read that needs nothing else to be there."""
    if method != "GET" or path in (
        "/v1/events",
        "/v1/changes",
        "/v1/cluster/snapshot",
        "/livez",
        "/readyz",
        "/metrics",
    ):
        return []
    if "namespace" in query:
        return [(one, f"{path}?namespace={one}") for one in ("billing", "data")]
    return [] if "{" in path or not path.startswith("/v1/") else [(None, path)]
