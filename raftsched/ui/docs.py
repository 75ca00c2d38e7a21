"""The documentation as a node serves it at `/ui/docs/`: pages, their navigation, and what their search looks through.

`docs.json.br` beside this has the articles (`scripts/website/built_in.py` makes it, the build puts it into the wheel);
`docs_theme/` has what is around them. It is read when somebody first asks for it, and takes some megabytes from then
on. A checkout may have none.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import sha256
from html import escape, unescape
from importlib import resources
from typing import Any

import brotli

from raftsched.ui.files import File

HOME = "/ui/docs/"
ASSETS = "/ui/docs/assets"
PACKED = "docs.json.br"
INDEX = "search.json"
_THEME = ("docs.js", "search.js", "docs.css", "page.html")
_SHARED = {"theme.js": "theme.js", "icon.svg": "icon.svg", "tokens.css": "style/tokens.css"}  # of the page
_PAGES_KEPT = 32  # made pages, each with its codings
_HEADING = re.compile(r'<h([23]) id="([^"]+)">(.*?)</h\1>', re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_SPACE = re.compile(r"\s+")

Entry = tuple[str, Any]  # title, and the address of a page or the entries of a section


class Docs:
    """All pages by their addresses. `digest` is of all that they are made of."""

    def __init__(self, packed: bytes, theme: dict[str, bytes]) -> None:
        """`theme`: the files of `docs_theme` and those that it shares with the page, by their names."""
        from raftsched.ui.slim import slim  # a node that shows none of them needs none of it

        content = json.loads(brotli.decompress(packed))
        self._pages: dict[str, dict[str, Any]] = {page["address"]: page for page in content["pages"]}
        self._nav: list[Entry] = [(title, within) for title, within in content["nav"]]
        self.words = content["words"]
        whole = sha256(packed)
        for name in sorted(theme):
            whole.update(f"{name}\0{len(theme[name])}\0".encode() + theme[name])
        self.digest = whole.hexdigest()[:20]
        self.assets = f"{ASSETS}/{self.digest}"
        self._shell = theme["page.html"].decode().replace("{{assets}}", self.assets)
        style = (theme["tokens.css"] + theme["docs.css"]).decode()
        self._assets = {
            "docs.css": File("docs.css", slim(style).encode()),
            **{name: File(name, slim(theme[name].decode()).encode()) for name in theme if name.endswith(".js")},
            "icon.svg": File("icon.svg", theme["icon.svg"]),
            **{name: File(name, base64.b64decode(text)) for name, text in content["pictures"].items()},
        }
        self._order = [address for entry in self._nav for address in _addresses(entry)]
        self._kept = lru_cache(_PAGES_KEPT)(self._page)
        missing = "There is no such page"
        self.missing = self._made("", missing, f"<h1>{missing}</h1><p>The search and the list of pages lead on.</p>")

    def addresses(self) -> list[str]:
        """Returns the addresses of all pages."""
        return list(self._pages)

    def article(self, address: str) -> str:
        """Returns the HTML of a page without what is around it. Raises KeyError."""
        return str(self._pages[address]["html"]).replace("{{assets}}", self.assets)

    def asset(self, name: str) -> File | None:
        """Returns what pages load; None: there is nothing of this name. The first `search.json` takes tens of ms."""
        if name == INDEX and name not in self._assets:
            index = search_index(self._pages.values(), self.words)
            self._assets[name] = File(name, json.dumps(index, ensure_ascii=False).encode())
        return self._assets.get(name)

    def page(self, address: str) -> File | None:
        """Returns the page of an address; None: there is none, and none that was made gives way to that."""
        return self._kept(address) if address in self._pages else None

    def _page(self, address: str) -> File:
        return self._made(address, self._pages[address]["title"], self.article(address))

    def _made(self, address: str, title: str, article: str) -> File:
        whole = title if address == HOME else f"{title} · raftsched"
        parts = {
            "title": escape(whole),
            "nav": "".join(_listed(entry, address) for entry in self._nav),
            "toc": _toc(article),
            "article": article,
            "around": self._around(address),
        }
        text = re.sub(r"\{\{(\w+)\}\}", lambda match: parts.get(match[1], match[0]), self._shell)
        return File("page.html", text.encode())

    def _around(self, address: str) -> str:
        """Returns the links to the pages before and after this one."""
        if address not in self._order:
            return ""
        at = self._order.index(address)
        links = []
        for rel, say, place in (("prev", "Before: ", at - 1), ("next", "Next: ", at + 1)):
            if 0 <= place < len(self._order):
                other = self._order[place]
                links.append(f'<a rel="{rel}" href="{other}">{say}{escape(self._pages[other]["title"])}</a>')
        return "".join(links)


@cache
def load() -> Docs | None:
    """Returns the documentation of this package; None: it was built without. The first call takes some 50 ms."""
    try:
        packed = (resources.files("raftsched.ui") / PACKED).read_bytes()
    except FileNotFoundError:
        return None
    return Docs(packed, theme())


def theme() -> dict[str, bytes]:
    """Returns the files that are around the articles, by their names."""
    here = resources.files("raftsched.ui")
    own = {name: (here / "docs_theme" / name).read_bytes() for name in _THEME}
    return own | {name: here.joinpath("static", *path.split("/")).read_bytes() for name, path in _SHARED.items()}


def search_index(pages: Iterable[Mapping[str, Any]], words: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Returns what the search looks through: sections as [address, page, heading, text, weight of the page], and words
    that lead to a page as [phrase, address, page]."""
    sections = []
    for page in pages:
        if not page["weight"]:
            continue
        first, *parts = _HEADING.split(page["html"])
        sections.append([page["address"], page["title"], "", _text(first), page["weight"]])
        for _, anchor, heading, body in zip(*[iter(parts)] * 4, strict=True):
            place = f"{page['address']}#{anchor}"
            sections.append([place, page["title"], _text(heading), _text(body), page["weight"]])
    return {"sections": sections, "words": words}


def _addresses(entry: Entry) -> Iterator[str]:
    _, within = entry
    if isinstance(within, str):
        yield within
    else:
        for each in within:
            yield from _addresses(each)


def _listed(entry: Entry, here: str) -> str:
    title, within = entry
    if isinstance(within, str):
        current = ' aria-current="page"' if within == here else ""
        return f'<li><a href="{within}"{current}>{escape(title)}</a></li>'
    shown = " open" if here in _addresses(entry) else ""
    inner = "".join(_listed(each, here) for each in within)
    return f"<li><details{shown}><summary>{escape(title)}</summary><ul>{inner}</ul></details></li>"


def _toc(article: str) -> str:
    """Returns the list of a page's headings; empty where there are fewer than three."""
    found = [(anchor, _text(heading)) for level, anchor, heading in _HEADING.findall(article) if level == "2"]
    if len(found) < 3:
        return ""
    items = "".join(f'<li><a href="#{anchor}">{escape(heading)}</a></li>' for anchor, heading in found)
    return f'<nav class="toc" aria-label="On this page"><p>On this page</p><ul>{items}</ul></nav>'


def _text(html: str) -> str:
    return _SPACE.sub(" ", unescape(_TAG.sub("", html.replace("</td>", " ").replace("</p>", " ")))).strip()
