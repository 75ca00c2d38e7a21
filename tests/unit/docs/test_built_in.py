"""The documentation that is built into the packages: every page and every link is whole, and so is every link into it
that the product prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.ui.docs import Docs, theme
from scripts.website import built_in
from scripts.website.built_in import HOME, address

ROOT = Path(__file__).parents[3]
PACKED_MAX = 450_000  # bytes, of a wheel of under three million
PRINTED = ("raftsched", "deploy", "examples")
KINDS = (".py", ".js", ".html", ".yml", ".yaml", ".json", ".service", ".conf", ".toml")
_SOURCE = re.compile(r"\bdocs/((?:[a-z-]+/)*[a-z-]+)\.md(?:#([a-z0-9_-]+))?")
_ADDRESS = re.compile(r"/ui/docs/((?:[a-z-]+/)*)(?:#([a-z0-9_-]+))?")
_LINK = re.compile(rf'href="({HOME}[^"#]*)(?:#([^"]*))?"')
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    return built_in.bundle()


@pytest.fixture(scope="module")
def packed(content: dict[str, Any]) -> bytes:
    return built_in.packed(content)


@pytest.fixture(scope="module")
def pages(packed: bytes) -> dict[str, str]:
    """The articles by their addresses."""
    made = Docs(packed, theme())
    return {at: made.article(at) for at in made.addresses()}


def test_it_is_small(packed: bytes) -> None:
    assert len(packed) <= PACKED_MAX


def test_every_link_of_a_page_leads_to_a_page_and_a_heading(pages: dict[str, str]) -> None:
    links = [(here, *found) for here, article in pages.items() for found in _LINK.findall(article)]
    assert len(links) > 500
    assert not wrong(pages, links)


def test_every_link_that_the_product_prints_leads_to_a_page_and_a_heading(pages: dict[str, str]) -> None:
    links = list(printed())
    assert {f"{HOME}runbook/", f"{HOME}reference/errors/"} <= {page for _, page, _ in links}
    assert not wrong(pages, links)


def wrong(pages: dict[str, str], links: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    ids = {at: set(re.findall(r'\bid="([^"]+)"', article)) for at, article in pages.items()}
    return [link for link in links if link[1] not in ids or (link[2] and link[2] not in ids[link[1]])]


def printed() -> Iterator[tuple[str, str, str]]:
    """Yields each file that names a place of the documentation, the page and the anchor."""
    for folder in PRINTED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in KINDS:
                continue
            text = path.read_text()
            where = str(path.relative_to(ROOT))
            yield from ((where, address(f"{page}.md"), anchor) for page, anchor in _SOURCE.findall(text))
            yield from ((where, f"{HOME}{page}", anchor) for page, anchor in _ADDRESS.findall(text))


def test_pages_load_and_say_nothing_of_other_places(pages: dict[str, str]) -> None:
    for at, article in pages.items():
        assert article.count("<h1") == 1, at
        assert not re.search(r"<(?:script|iframe|style)\b|\bstyle=|\son[a-z]+=", article), at
        assert not re.findall(r'<img[^>]*src="(?!/ui/docs/assets/)', article), at
        assert not re.search(r'(?:href|src)="(?!https?://|/ui/docs/|#|mailto:)', article), at


def test_the_same_source_makes_the_same_bytes(content: dict[str, Any]) -> None:
    assert json.dumps(built_in.bundle()) == json.dumps(content)


def test_every_page_of_the_navigation_has_one_before_or_after_it(packed: bytes) -> None:
    made = Docs(packed, theme())
    for at in (HOME, f"{HOME}runbook/", f"{HOME}reference/errors/"):
        page = made.page(at)
        assert page is not None
        text = page.body.decode()
        assert 'rel="next"' in text
        assert text.count('aria-current="page"') == 1, at
    home = made.page(HOME)
    assert home is not None
    for door in ("Run jobs", "Operate", "Extend", "Understand"):
        assert f">{door}</h2>" in home.body.decode()
    assert 'overview.webp" />' in home.body.decode()
