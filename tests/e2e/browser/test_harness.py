"""A tab notices what must not happen: each of these pages does one thing that fails a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route

from tests.support import axe
from tests.support.browser import Tab
from tests.support.cluster import Cluster, NodeProcess

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"


@pytest.fixture
def bare(browser: Browser, tmp_path: Path) -> Iterator[Tab]:
    """A tab of a node that is not there: the test answers for it."""
    node = NodeProcess(Cluster(1, directory=tmp_path), "n1", 1, 2)
    tab = Tab(browser, [node])
    yield tab
    tab.close()


def serve(tab: Tab, body: str, policy: str = POLICY) -> None:
    def answer(route: Route) -> None:
        html = route.request.url.endswith("/ui/")
        headers = {"Content-Type": "text/html" if html else "text/javascript"}
        if policy:
            headers["Content-Security-Policy"] = policy
        page = f"<!doctype html><html lang=en><title>t</title><main><h1>Page</h1>{body}</main>"
        route.fulfill(status=200, headers=headers, body=page if html else "export const sum = (a, b) => a + b;")

    tab.context.route("**/*", answer)


def test_a_calm_page_is_no_fault(bare: Tab) -> None:
    serve(bare, "<script type=module src=/ui/assets/app.js></script>")
    bare.go()
    assert bare.call("sum.js", "sum", 1, 2) == 3
    assert not bare.unexpected


@pytest.mark.parametrize(
    "body, policy, fault",
    [
        ("<script>let a = 1</script>", POLICY, "script-src"),
        ("<p style='color: red'>x</p>", POLICY, "style-src"),
        ("<img src=http://127.0.0.2/x.png alt=x>", POLICY, "img-src"),
        ("<img src=http://127.0.0.2/x.png alt=x>", "", "request to a stranger: http://127.0.0.2/x.png"),
        ("<script>console.error('oh')</script>", "", "oh"),
        ("<script>setTimeout(() => { throw new Error('thrown') })</script>", "", "thrown"),
    ],
)
def test_faults_are_noticed(bare: Tab, body: str, policy: str, fault: str) -> None:
    serve(bare, body, policy)
    bare.go()
    bare.page.wait_for_load_state("networkidle")
    assert any(fault in one for one in bare.unexpected), bare.faults


def test_what_a_test_provokes_is_no_fault_but_a_breach_always_is(bare: Tab) -> None:
    serve(bare, "<script>console.error('oh')</script>", "")
    bare.expects("oh")
    bare.go()
    assert not bare.unexpected
    serve(bare, "<script>let a = 1</script>")
    bare.expects(".")
    bare.go()
    assert bare.unexpected


def test_axe_finds_what_is_wrong_under_the_policy(bare: Tab) -> None:
    serve(bare, "<input><script type=module src=/ui/assets/app.js></script>")
    bare.go()
    assert any(line.startswith("label (critical)") for line in axe.violations(bare.page))
    assert not bare.unexpected


def test_a_page_that_is_too_wide_is_noticed(bare: Tab) -> None:
    serve(bare, f"<p>{'x' * 2000}</p>")
    bare.go()
    assert bare.overflow() > 0
