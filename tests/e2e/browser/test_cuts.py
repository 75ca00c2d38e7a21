"""No page cuts a text that one came to read, at five widths in both themes, with the longest names that are allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.crowd import JOB, SPACE, crowd
from tests.e2e.browser.test_pages import PAGES
from tests.e2e.browser.world import World, build, path_of
from tests.support.amounts import a_share, some
from tests.support.browser import HEIGHT, Theme
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
CUTS = (Path(__file__).parent / "cuts.js").read_text().partition("\n")[2]
WIDTHS = (390, 768, 1024, 1280, 1440)
LONG = f"{{{SPACE}/{JOB}}}"
CROWDED = {
    "runs-chosen": f"/ui/runs?namespace={SPACE}",
    "jobs-sorted": "/ui/jobs?sort=-name",
    "long-job": f"/ui/jobs/{LONG}",
    "long-job-graph": f"/ui/jobs/{LONG}?tab=graph",
    "long-job-content": f"/ui/jobs/{LONG}?tab=content",
    "long-job-edit": f"/ui/jobs/{LONG}/edit",
    "long-run": "/ui/runs/<crowd>",
    "workflows": "/ui/workflows",
    "long-workflow": "/ui/workflows/<crowd>",
    "compare": "/ui/compare?a=<report>&b=<crowd>",
    "audit-changes": "/ui/audit?tab=records&kind=change",
    "long-queue": f"/ui/queues/{SPACE}",
    "long-calendar": f"/ui/calendars/{SPACE}",
    "long-namespace": f"/ui/namespaces/{SPACE}",
    "long-webhook": f"/ui/webhooks/{SPACE}",
    "long-overview": f"/ui/?namespace={SPACE}",
}


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[World]:
    made = build(cluster)
    crowd(made)
    yield made
    made.end()


# In a shared run a third of the usual pages, which are seen with long names as well, and half of those.
@pytest.mark.parametrize("name", [*a_share(list(PAGES), 3), *a_share(list(CROWDED), 2)])
def test_nothing_is_cut(name: str, world: World, open_tab: Opens) -> None:
    tab = open_tab()
    page = tab.go(path_of(world, (PAGES | CROWDED)[name]))
    tab.settle()
    if name == "runs-chosen":
        page.get_by_label("Choose all that match").click()
    found = []
    for theme in some(list(get_args(Theme))):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            found += [f"{width} px, {theme}: {cut}" for cut in page.evaluate(CUTS)]
    assert not found, "\n".join(found)
