"""docs/operations.md lists every setting as the API describes it, and the routes that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

from raftsched.api.resources.settings_schema import TEXTS, is_duration, setting_name
from raftsched.api.routes import ROUTES
from raftsched.core.cluster import Settings
from raftsched.core.limits import SETTINGS
from raftsched.quantities import format_duration

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()


def test_every_setting_is_there_with_its_default_and_bounds() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (\S+) \| (\S+), (\S+) \| (.+) \|$", PAGE, re.MULTILINE)
    wanted = []
    for field, bounds in SETTINGS.items():
        values = [getattr(Settings(), field), *bounds]
        shown = [format_duration(value) if is_duration(field) else str(value) for value in values]
        wanted.append((setting_name(field), *shown, TEXTS[setting_name(field)]))
    assert sorted(rows) == sorted(wanted)


def test_the_routes_that_the_page_names_exist() -> None:
    routes = {(route.method, route.path) for route in ROUTES}
    named = re.findall(r"(GET|POST|PUT|PATCH|DELETE) (/v1/[a-z_/{}-]+)", PAGE)
    assert named
    assert set(named) <= routes
