"""docs/ui.md: its addresses, keys, routes and pictures are there, and routes that the page does not use are listed."""

from __future__ import annotations

import re
from pathlib import Path

import raftsched
from raftsched.api.routes import ROUTES

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "ui.md").read_text()
STATIC = Path(raftsched.__file__).parent / "ui" / "static"
SCRIPTS = "".join(path.read_text() for path in STATIC.rglob("*.js") if path.name != "roles.js")
PAGES = (STATIC / "core" / "routes.js").read_text()
CANNOT = PAGE.partition("## What the API can do and the page cannot")[2]


def test_every_address_is_said() -> None:
    found = {re.sub(r":id$|:id(?=/)", "ID", path) for path in re.findall(r'path: "([^"]+)"', PAGES)}
    assert len(found) > 20
    # The page of one queue is said with the queues, and a page that asks for a token comes by itself.
    wanted = {path for path in found if not path.endswith("/:name") and path != "/ui/sign-in"}
    said = {path.rstrip("/") for path in re.findall(r"`(/ui/[\w/-]*)`", PAGE)}
    assert {path for path in wanted if path not in said} == set()
    assert said - {path.rstrip("/") for path in wanted} == set()


def test_every_key_that_goes_to_a_page_is_said() -> None:
    (line,) = re.findall(r"^\| `g` and then (.*?) \|", PAGE, re.MULTILINE)
    assert sorted(re.findall(r"`(\w)`", line)) == sorted(re.findall(r'keys: "(\w)"', PAGES))


def test_its_routes_exist() -> None:
    routes = {(route.method, route.path) for route in ROUTES}
    named = set(re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[\w/{}:.-]+)`", PAGE))
    assert named
    assert named <= routes


def test_what_no_script_names_is_listed() -> None:
    """By the last word of an address, so that a new route is not forgotten. Links to /docs are in the shell."""
    unused = set()
    for route in ROUTES:
        word = re.findall(r"[/:]([a-z][\w.-]*)", re.sub(r"\{\w+\}", "", route.path))[-1]
        if not re.search(rf"""["'/:]{re.escape(word)}["'`/?]""", SCRIPTS) and route.path not in CANNOT:
            unused.add(f"{route.method} {route.path}")
    assert not unused


def test_all_pictures_are_shown() -> None:
    shown = set(re.findall(r"!\[[^\]]+\]\(ui/([\w.-]+)\)", PAGE))
    assert shown == {path.name for path in (DOCS / "ui").iterdir()}
