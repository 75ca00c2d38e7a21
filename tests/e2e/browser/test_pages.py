"""Every page over a real cluster, opened by its own address: no fault, nothing wider than the window at three widths,
no serious violation that axe knows, light and dark.

RAFTSCHED_SCREENSHOTS=DIR keeps a picture of each at each width in both themes, to be looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import World, build, path_of
from tests.support import axe
from tests.support.amounts import a_share
from tests.support.browser import HEIGHT, WIDTHS, Theme
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
SCREENSHOTS = os.environ.get("RAFTSCHED_SCREENSHOTS")
# name -> path; {x} is the id of a job, <x> that of a run
PAGES = {
    "overview": "/ui/",
    "jobs": "/ui/jobs",
    "jobs-filtered": "/ui/jobs?namespace=billing",
    "new-job": "/ui/jobs/new",
    "job": "/ui/jobs/{billing/nightly-report}",
    "job-schedule": "/ui/jobs/{billing/nightly-report}?tab=schedule",
    "job-year": "/ui/jobs/{billing/nightly-report}?tab=year",
    "job-graph": "/ui/jobs/{billing/nightly-report}?tab=graph",
    "job-content": "/ui/jobs/{billing/nightly-report}?tab=content",
    "job-revisions": "/ui/jobs/{billing/nightly-report}?tab=revisions",
    "job-busy": "/ui/jobs/{data/heartbeat}",
    "job-manual": "/ui/jobs/{data/train}",
    "edit-job": "/ui/jobs/{billing/nightly-report}/edit",
    "runs": "/ui/runs",
    "run": "/ui/runs/<report>",
    "run-failed": "/ui/runs/<import>",
    "run-active": "/ui/runs/<train>",
    "run-waiting": "/ui/runs/<waiting>",
    "compare": "/ui/compare?a=<report>&b=<import>",
    "workflows": "/ui/workflows",
    "workflow": "/ui/workflows/<import>",
    "dead-letters": "/ui/dead-letters",
    "queues": "/ui/queues",
    "queue": "/ui/queues/gpu",
    "calendars": "/ui/calendars",
    "calendar": "/ui/calendars/holidays",
    "namespaces": "/ui/namespaces",
    "namespace": "/ui/namespaces/billing",
    "webhooks": "/ui/webhooks",
    "webhook": "/ui/webhooks/ops",
    "operations": "/ui/operations",
    "audit": "/ui/audit",
    "tokens": "/ui/tokens",
    "cluster": "/ui/cluster",
    "settings": "/ui/cluster/settings",
    "preview": "/ui/preview",
    "crontab": "/ui/crontab",
    "sign-in": "/ui/sign-in",
    "no-such-page": "/ui/nothing/here",
}

# axe takes two thirds of a page's time: in a shared run it looks at a third of them, at others in each run.
LOOKED_AT = a_share(list(PAGES), 3)


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[World]:
    made = build(cluster)
    yield made
    made.end()


@pytest.mark.parametrize("name", PAGES)
def test_each_page_fits_and_is_accessible(name: str, world: World, open_tab: Opens) -> None:
    tab = open_tab()
    page = tab.go(path_of(world, PAGES[name]))
    tab.settle()
    assert page.locator("h1").count() == 1
    assert page.title()
    wide, wrong = [], []
    for theme in get_args(Theme):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            if tab.overflow() > 0:
                wide.append(f"{width} px: {tab.overflow()} px too wide")
            if SCREENSHOTS:
                tab.shoot(Path(SCREENSHOTS) / f"{name}-{width}-{theme}.png", whole=True)
        if name not in LOOKED_AT:
            continue
        rules = () if theme == "light" else axe.OF_COLOURS
        wrong += [f"{theme}: {line}" for line in axe.violations(page, rules)]
    assert not wide, wide
    assert not wrong, "\n".join(wrong)
    assert not page.locator("main").get_by_text("undefined").count()
    assert not page.locator("main").get_by_text("[object Object]").count()
    assert not page.locator("main").get_by_text("NaN", exact=True).count()
