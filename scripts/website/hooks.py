"""What MkDocs calls while it builds the site: it gets the pages that are not in docs/, and Markdown as it reads it.

`mkdocs.yml` names this file. The pages and their links are those of `pages.py` and `markdown.py`, the reference that of
`reference/`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.website import markdown, pages, reference

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
    style = File.generated(config, "site.css", abs_src_path=str(Path(__file__).parent / "site.css"))
    files.append(style)
    return files


def on_page_markdown(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Returns the page with links that lead to pages of the site, in the Markdown that MkDocs reads."""
    here = _site.pages[page.file.src_uri]
    if here.file:
        page.meta["search"] = {"exclude": True}
    elif here.path.startswith(reference.FOLDER):  # what explains comes before what lists
        page.meta["search"] = {"boost": 0.3}
    return markdown.for_mkdocs(_site.with_links(here, text))
