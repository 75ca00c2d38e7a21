"""Makes the documentation that a node serves at `/ui/docs/`: all pages of the site as one compressed file.

    python -m scripts.website.built_in FILE

It has each page's article without what is around it, the navigation of `mkdocs.yml`, the words of `words.py`, and the
picture of the first page. `raftsched/ui/docs.py` reads it. The same source makes the same bytes.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import brotli
import markdown
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.website import pages, reference, words
from scripts.website.markdown import change_links, for_mkdocs, slug

HOME = "/ui/docs/"
PICTURES = ("ui/overview.webp",)  # others show the page, and who reads this is one click from it
ASSETS = "{{assets}}"  # the node knows where they are
_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+\.(?:webp|png|svg))\)")
_EXTENSIONS: list[str] = ["tables", "attr_list", "toc", "pymdownx.superfences"]
_SETTINGS: dict[str, dict[str, Any]] = {
    "tables": {"use_align_attribute": True},  # the policy of the page lets no element have a style of its own
    "toc": {"slugify": lambda text, _: slug(text)},
    "pymdownx.superfences": {"disable_indented_code_blocks": True},
}


def address(path: str) -> str:
    """Returns where a node serves the page of this path in the site's sources."""
    return HOME + re.sub(r"(?:^|(?<=/))index\.md$|\.md$", "/", path).lstrip("/").replace("//", "/")


def bundle() -> dict[str, Any]:
    """Returns what the file holds."""
    made = reference.pages()
    site = pages.site(made)
    order = list(_nav(site, made))
    return {
        "pages": [
            {
                "address": address(page.path),
                "title": plain(page.title),
                "weight": weight(page),
                "html": _rendered(site, page),
            }
            for page in site.pages.values()
        ],
        "nav": order,
        "words": leading_words(site, address),
        "pictures": {
            Path(name).name: base64.b64encode((pages.ROOT / "docs" / name).read_bytes()).decode() for name in PICTURES
        },
    }


def _rendered(site: pages.Site, page: pages.Page) -> str:
    text = _with_addresses(page, site.with_links(page, _without_pictures(page.text)))
    return markdown.markdown(for_mkdocs(text), extensions=_EXTENSIONS, extension_configs=_SETTINGS)


def _without_pictures(text: str) -> str:
    def shown(match: re.Match[str]) -> str:
        name = posixpath.basename(match[2])
        return f"![{match[1]}]({ASSETS}/{name})" if any(one.endswith("/" + name) for one in PICTURES) else ""

    return _PICTURE.sub(shown, text)


def _with_addresses(here: pages.Page, text: str) -> str:
    def changed(label: str, target: str) -> tuple[str, str]:
        name, _, anchor = target.partition("#")
        if not name.endswith(".md"):
            return label, target
        way = posixpath.normpath(posixpath.join(posixpath.dirname(here.path), name))
        return label, address(way) + ("#" + anchor if anchor else "")

    return change_links(text, changed)


def _nav(site: pages.Site, made: dict[str, str]) -> Iterator[list[Any]]:
    """Yields the navigation: [title, address] of a page, or [title, entries] of a section."""
    said = (pages.ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    sections = yaml.safe_load(said)
    (last,) = sections[-1].values()
    sections[-1] = {"Reference": [*reference.nav(list(made)), *last]}

    def entry(one: Any) -> list[Any]:
        if isinstance(one, str):
            return [plain(site.pages[one].title), address(one)]
        ((title, within),) = one.items()
        return [title, address(within) if isinstance(within, str) else [entry(each) for each in within]]

    yield from map(entry, sections)


def leading_words(site: pages.Site, address_of: Callable[[str], str]) -> list[list[str]]:
    """Returns [phrase, address, title of the page] for all of `words.py`. Raises KeyError where a page is not there."""
    found = []
    for place, phrases in words.WORDS.items():
        path, _, anchor = place.partition("#")
        where = address_of(path) + ("#" + anchor if anchor else "")
        found += [[phrase, where, plain(site.pages[path].title)] for phrase in phrases]
    return found


def weight(page: pages.Page) -> float:
    """Returns how much the search makes of a page; 0: it does not look at it."""
    return 0.0 if page.file else next((w for start, w in words.WEIGHTS if page.path.startswith(start)), 1.0)


def plain(text: str) -> str:
    """Returns a title without its marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


def packed(content: dict[str, Any], quality: int = 11) -> bytes:
    """Returns the file's bytes. The best quality takes six seconds, which who reads it at once need not spend."""
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return brotli.compress(text.encode(), mode=brotli.MODE_TEXT, quality=quality, lgwin=24)


def main(arguments: list[str], make: Callable[[], dict[str, Any]] = bundle) -> None:
    (out,) = arguments
    Path(out).write_bytes(packed(make()))


if __name__ == "__main__":
    main(sys.argv[1:])
