"""A browser for all tests here, a tab for each, and a failure for what a tab must never see."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Route

import raftsched
from tests.support.api_nodes import AnyCluster
from tests.support.browser import MISSING, Tab, chromium, executable
from tests.support.cluster import Cluster

Opens = Callable[..., Tab]
_TABS = pytest.StashKey[list[Tab]]()
SHOWN = 3000  # characters of a page in the report of a failure
_STATIC = Path(raftsched.__file__).parent / "ui" / "static"
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"
_SHELL = (
    "<!doctype html><html lang=en><title>units</title><script type=module src=/ui/assets/x/unit.js></script><h1>.</h1>"
)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if executable() is None:
        pytest.skip(MISSING)
    with chromium() as started:
        yield started


@pytest.fixture
def open_tab(request: pytest.FixtureRequest, browser: Browser, cluster: AnyCluster) -> Iterator[Opens]:
    """Opens tabs. What they see counts when the test is done."""
    tabs = request.node.stash[_TABS] = []

    def opens(**options: Any) -> Tab:
        tabs.append(Tab(browser, cluster.nodes, **options))
        return tabs[-1]

    yield opens
    unexpected = [fault for tab in tabs for fault in tab.unexpected]
    for tab in tabs:
        tab.close()
    assert not unexpected, "\n".join(unexpected)


@pytest.fixture
def tab(open_tab: Opens) -> Tab:
    return open_tab()


@pytest.fixture(scope="module")
def units(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A tab without a cluster: the page's files are answered from the disk, for tests of its modules one by one."""
    cluster = Cluster(1, directory=tmp_path_factory.mktemp("units"))
    opened = Tab(browser, cluster.nodes)

    def answer(route: Route) -> None:
        path = route.request.url.partition("/ui/assets/x/")[2]
        if path == "unit.js":
            route.fulfill(status=200, content_type="text/javascript", body="")
        elif path:
            kind = mimetypes.guess_type(path)[0]
            route.fulfill(status=200, content_type=kind, body=(_STATIC / path).read_bytes())
        else:
            route.fulfill(
                status=200, content_type="text/html", headers={"Content-Security-Policy": _POLICY}, body=_SHELL
            )

    opened.context.route("**/*", answer)
    opened.go()
    yield opened
    unexpected = opened.unexpected
    opened.close()
    assert not unexpected, unexpected


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """The pages of a test that failed, as text, beside its report."""
    report = yield
    if report.when == "call" and report.failed:
        for tab in item.stash.get(_TABS, []):
            try:
                shown = tab.text()[:SHOWN]
            except Error as error:
                shown = str(error)
            report.sections.append((f"the page at {tab.page.url}", shown + "\n" + "\n".join(tab.faults)))
    return report
