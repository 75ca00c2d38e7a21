"""A browser for all tests here, a tab for each, and a failure for what a tab must never see."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Error

from tests.support.browser import MISSING, Tab, chromium, executable
from tests.support.cluster import Cluster

Opens = Callable[..., Tab]
_TABS = pytest.StashKey[list[Tab]]()
SHOWN = 3000  # characters of a page in the report of a failure


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    if executable() is None:
        pytest.skip(MISSING)
    with chromium() as started:
        yield started


@pytest.fixture
def open_tab(request: pytest.FixtureRequest, browser: Browser, cluster: Cluster) -> Iterator[Opens]:
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
