"""The site of the documentation: every page is in its navigation, every link leads somewhere, and it loads nothing from
other hosts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.website import markdown, pages
from tests.support.patience import patient

ROOT = Path(__file__).parents[3]
CONFIG = (ROOT / "mkdocs.yml").read_text()
NAV = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", CONFIG.partition("\nnav:\n")[2], re.MULTILINE)
# what a page loads without a click: the address in any tag but that of a link, or one that says where else the page is
LOADED = re.compile(
    r"<(?!a\b|link [^>]*\brel=\"?(?:canonical|alternate|next|prev)\b)[a-z]+\b"
    r"[^>]*?\s(?:src|srcset|href|data|poster)=\"?([^\">\s]+)"
)
FOREIGN = re.compile(r"(?:[a-z]+:)?//")


def test_every_page_is_in_the_navigation_once() -> None:
    shown = [path for path, page in pages.site({}).pages.items() if not page.file]
    missing = sorted({*shown} - {*NAV})
    assert not missing, (
        f"add these pages to `nav` in mkdocs.yml, in the section of what a reader wants to do: {missing}"
    )
    assert sorted(NAV) == sorted(shown)


@pytest.mark.parametrize("source", sorted({page.source for page in pages.site({}).pages.values() if not page.file}))
def test_every_link_leads_to_a_file_and_to_a_heading_of_it(source: str) -> None:
    """As a code host resolves it; of the site, the build looks at the same."""
    path = ROOT / source
    if path.is_dir():
        return
    for target in links(path.read_text()):
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        assert there.exists(), f"{source}: {target} is not there"
        assert there.is_relative_to(ROOT), f"{source}: {target} is not part of this"
        if anchor and there.suffix == ".md":
            anchors = {markdown.slug(text) for _, text in markdown.headings(there.read_text())}
            assert anchor in anchors, f"{source}: {target} names no heading"


def links(text: str) -> list[str]:
    found: list[str] = []

    def look(label: str, target: str) -> tuple[str, str]:
        found.append(target)
        return label, target

    markdown.change_links(text, look)
    return found


def test_links_become_links_of_the_site_and_code_stays() -> None:
    site = pages.site({})
    here = site.pages["security.md"]
    assert (
        site.with_links(here, "see [SECURITY.md](../SECURITY.md)")
        == "see [Security policy](project/security-policy.md)"
    )
    assert site.with_links(here, "[x](../README.md#one-job)") == "[x](project/readme.md#one-job)"
    assert (
        site.with_links(here, "[the `rules`](../deploy/prometheus)")
        == "[the `rules`](files/deploy/prometheus/index.md)"
    )
    for kept in (
        "`[SECURITY.md](../SECURITY.md)`",
        "```\n[a](../SECURITY.md)\n```\n",
        "[a](https://b.example/SECURITY.md)",
    ):
        assert site.with_links(here, kept) == kept


def test_markdown_of_code_hosts_is_made_fit() -> None:
    assert markdown.for_mkdocs("| `a \\| b` | c \\| d |") == "| `a | b` | c \\| d |"
    assert markdown.for_mkdocs("```\nraftsched jobs list\n```") == "```sh\nraftsched jobs list\n```"
    assert markdown.for_mkdocs("```\nID  STATE\n```") == "```text\nID  STATE\n```"
    assert markdown.for_mkdocs("1. a\n   ```python\n   b\n   ```") == "1. a\n    ```python\n    b\n    ```"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=patient(240), check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # a page in no navigation, a link or an anchor that is wrong
    return place


@pytest.mark.slow
def test_the_site_is_built_and_loads_nothing_from_other_hosts(built: Path) -> None:
    found = sorted(built.rglob("*.html"))
    assert len(found) > 100
    for path in found:
        text = path.read_text()
        loaded = LOADED.findall(text)
        assert loaded
        assert not [address for address in loaded if FOREIGN.match(address)], path
        assert not re.search(r"<style|\bstyle=\"[^\"]*url\(", text), path
        assert 'class="mermaid"' not in text, "the theme would load what draws it from another host"
    for path in built.rglob("*.css"):
        assert not re.search(r"@import|url\(['\"]?(?:[a-z]+:)?//", path.read_text()), path
    assert 'name="robots"' not in (built / "index.html").read_text()


@pytest.mark.parametrize(
    "html, loaded",
    [
        ('<script src="https://a.example/x.js"></script>', ["https://a.example/x.js"]),
        ('<link rel="stylesheet" href="//a.example/x.css">', ["//a.example/x.css"]),
        ('<link href="https://a.example/" rel="canonical">', []),
        ('<img alt="x" src=https://a.example/x.png>', ["https://a.example/x.png"]),
        ('<a class="x" href="https://a.example/">', []),
        ('<use href="https://a.example/x.svg#a"/>', ["https://a.example/x.svg#a"]),
    ],
)
def test_what_a_page_loads(html: str, loaded: list[str]) -> None:
    assert LOADED.findall(html) == loaded


@pytest.mark.slow
def test_the_search_looks_through_all_pages_and_what_is_made_from_the_code(built: Path) -> None:
    index = json.loads((built / "search.json").read_text())
    places = {place for place, *_ in index["sections"]} | {place for _, place, _ in index["words"]}
    for wanted in (
        "reference/commands/jobs.html#raftsched-jobs-create",
        "reference/api/jobs.html#post-v1-jobs",
        "reference/python/jobs.html#create",
        "guarantees.html#3-never-two-at-once",
        "cluster.html#growing-shrinking-a-lost-disk",
    ):
        assert wanted in places, wanted
    assert not any(place.startswith("files/") for place in places)
    for place in places:
        page, _, anchor = place.partition("#")
        text = (built / page).read_text()
        assert not anchor or f'id="{anchor}"' in text, place
        assert 'src="' in text
        assert "search.js" in text


def test_it_is_the_search_of_the_nodes() -> None:
    assert "extra_javascript: [site.js, search.js]" in CONFIG
