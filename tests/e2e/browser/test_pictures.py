"""The pictures of docs/ui.md, of a cluster with something to show. To take them anew, after a look at the page:

RAFTSCHED_SCREENSHOTS=docs/ui ./scripts/test tests/e2e/browser/test_pictures.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import expect

from tests.e2e.browser.conftest import Opens
from tests.e2e.browser.world import World, build, path_of
from tests.support.browser import Theme
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e
ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "docs" / "ui"
BYTES_MAX = 600_000  # of all together
SCREENSHOTS = os.environ.get("RAFTSCHED_SCREENSHOTS")


class Picture(NamedTuple):
    path: str
    text: str  # is there before it is taken
    width: int = 1400
    height: int = 900
    theme: Theme = "light"


PICTURES = {
    "overview": Picture("/ui/", "leads, term"),
    "jobs": Picture("/ui/jobs", "nightly-report"),
    "job": Picture("/ui/jobs/{data/poll}", "The last"),
    "new-job": Picture("/ui/jobs/new", "New job"),
    "run": Picture("/ui/runs/<report>", "42 invoices", height=1050, theme="dark"),
    "cluster": Picture("/ui/cluster", "n3"),
    "preview": Picture("/ui/preview", "Next times"),
    "phone": Picture("/ui/runs", "heartbeat", 360, 720),
}


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[World]:
    made = build(cluster)
    yield made
    made.end()


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_can_be_taken(name: str, world: World, open_tab: Opens, tmp_path: Path) -> None:
    picture = PICTURES[name]
    tab = open_tab(theme=picture.theme, width=picture.width)
    page = tab.go(path_of(world, picture.path))
    page.set_viewport_size({"width": picture.width, "height": picture.height})
    tab.settle()
    expect(page.locator("main")).to_contain_text(picture.text)
    file = tab.shoot((Path(SCREENSHOTS) if SCREENSHOTS else tmp_path) / f"{name}.webp")
    assert file.stat().st_size > 1_000


def test_the_document_shows_them_all_and_they_are_small() -> None:
    kept = {path.stem: path.stat().st_size for path in KEPT.glob("*.webp")}
    assert set(kept) == set(PICTURES)
    assert sum(kept.values()) < BYTES_MAX
    shown = re.findall(r"!\[[^\]]+\]\(ui/([\w-]+)\.webp\)", (ROOT / "docs" / "ui.md").read_text())
    assert sorted(shown) == sorted(PICTURES)
