"""Each module, folder and script of this source that a page names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.website import pages

ROOT = Path(__file__).parents[3]
PAGES = {
    page.source: page.text
    for page in pages.site({}).pages.values()
    if page.source.endswith(".md") and not page.file and page.source != "CHANGELOG.md"  # which may name what is gone
}
_NAMED = re.compile(r"`(?:\./)?([a-z_][\w.-]*(?:/[\w.*-]+)*/(?:[\w*-]+\.(?:py|js|md|yml|json|txt|sh))?)[`:#]")
BASES = (ROOT, ROOT / "raftsched", ROOT / "tests" / "unit")


TOPS = {path.name for base in BASES for path in base.iterdir() if path.is_dir()}


def named(text: str) -> set[str]:
    """Returns the paths that begin with a folder of the source or of the package."""
    return {path for path in _NAMED.findall(text) if path.partition("/")[0] in TOPS and "THING" not in path}


@pytest.mark.parametrize("source", sorted(PAGES))
def test_what_a_page_names_is_there(source: str) -> None:
    gone = [path for path in named(PAGES[source]) if not any(list(base.glob(path.rstrip("/"))) for base in BASES)]
    assert not gone, f"{source} names what is not there"


def test_paths_are_found_in_a_text() -> None:
    text = (
        "`core/model.py`, `raft/consensus/engine.py:Engine`, `scripts/dev`, `store/`, `/etc/raftsched/x.py`, `a/b.py`"
    )
    assert named(text) == {"core/model.py", "raft/consensus/engine.py", "store/"}
