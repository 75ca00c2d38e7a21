"""docs/settings.md lists every setting as the API describes it, and the routes that pages for operators name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raftsched.api.routes import ROUTES
from raftsched.cluster_settings import GROUPS, SETTINGS
from raftsched.quantities import public_name
from scripts import make_settings

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "settings.md").read_text()


def test_every_setting_is_there_with_its_default_and_bounds() -> None:
    assert make_settings.with_docs(PAGE) == PAGE, "run scripts/make-settings"
    assert re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE) == [*map(public_name, SETTINGS)]


def test_every_setting_is_in_a_group_of_the_page() -> None:
    assert make_settings.PAGE.read_text("utf-8") == make_settings.render_page(), "run scripts/make-settings"
    assert {row.group for row in SETTINGS.values()} == set(GROUPS)


@pytest.mark.parametrize("page", ["queues", "nodes", "operations", "upgrading", "runbook", "settings"])
def test_the_routes_that_the_page_names_exist(page: str) -> None:
    routes = {(route.method, route.path) for route in ROUTES}
    text = " ".join((DOCS / f"{page}.md").read_text().split())
    named = re.findall(r"(GET|POST|PUT|PATCH|DELETE) (/v1/[a-z_/{}-]+)", text)
    assert named
    assert set(named) <= routes
