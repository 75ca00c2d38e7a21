"""docs/settings.md lists every setting as the API describes it, and the routes that pages for operators name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from raftsched.api.resources.settings_schema import TEXTS, is_duration, setting_name
from raftsched.api.routes import ROUTES
from raftsched.core.limits import SETTINGS
from raftsched.core.subjects.cluster import Settings
from raftsched.quantities import format_duration

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "settings.md").read_text()


def test_every_setting_is_there_with_its_default_and_bounds() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (\S+) \| (\S+), (\S+) \| (.+) \|$", PAGE, re.MULTILINE)
    wanted = []
    for field, bounds in SETTINGS.items():
        values = [getattr(Settings(), field), *bounds]
        shown = [format_duration(value) if is_duration(field) else str(value) for value in values]
        wanted.append((setting_name(field), *shown, TEXTS[setting_name(field)]))
    assert sorted(rows) == sorted(wanted)


@pytest.mark.parametrize("page", ["queues", "nodes", "operations", "upgrading", "runbook", "settings"])
def test_the_routes_that_the_page_names_exist(page: str) -> None:
    routes = {(route.method, route.path) for route in ROUTES}
    text = " ".join((DOCS / f"{page}.md").read_text().split())
    named = re.findall(r"(GET|POST|PUT|PATCH|DELETE) (/v1/[a-z_/{}-]+)", text)
    assert named
    assert set(named) <= routes
