"""What MkDocs calls while it builds the site: it gets the pages that are not in docs/, Markdown as it reads it, and the
search that nodes have for the same pages.

`mkdocs.yml` names this file. The pages and their links are those of `pages.py` and `markdown.py`, the reference that of
`reference/`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from raftsched.ui.docs import search_index
from scripts.website import built_in, markdown, pages, reference

HERE = Path(__file__).parent
SEARCH = HERE.parents[1] / "raftsched" / "ui" / "docs_theme" / "search.js"
_PERMALINK = re.compile(r'<a class="headerlink"[^>]*>.*?</a>')
_found: list[dict[str, Any]] = []
_made: dict[str, str] = {}
_site = pages.Site({})


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the pages that are made from the code into the navigation, as its last section begins with them."""
    global _made
    _made = reference.pages()
    (last,) = config.nav[-1].values()
    config.nav[-1] = {"Reference": [*reference.nav(list(_made)), *last]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from outside docs/, the reference, and a page for each file of the source that a page links to."""
    global _site
    _site = pages.site(_made)
    for page in _site.pages.values():
        if page.made:
            level = InclusionLevel.NOT_IN_NAV if page.file else InclusionLevel.UNDEFINED
            files.append(File.generated(config, page.path, content=page.text, inclusion=level))
    for path in (HERE / "site.css", HERE / "site.js", SEARCH):
        files.append(File.generated(config, path.name, abs_src_path=str(path)))
    _found.clear()
    return files


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns the page with links that lead to pages of the site, in the Markdown that MkDocs reads."""
    here = _site.pages[page.file.src_uri]
    return markdown.for_mkdocs(_site.with_links(here, text))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Keeps what the search looks through."""
    here = _site.pages[page.file.src_uri]
    _found.append(
        {
            "address": page.url,
            "title": built_in.plain(here.title),
            "weight": built_in.weight(here),
            "html": _PERMALINK.sub("", html),
        }
    )


def on_post_build(config: MkDocsConfig) -> None:
    """Writes the index of the search, with addresses from where it lies."""
    words = built_in.leading_words(_site, lambda path: path.removesuffix(".md") + ".html")
    index = search_index(_found, words)
    (Path(config.site_dir) / "search.json").write_text(json.dumps(index, ensure_ascii=False))
