"""The version tells a release from what comes after it, and is what the changelog's newest heading says."""

from __future__ import annotations

import re

from raftsched.version import __version__
from tests.golden.releases import RELEASES, ROOT

HEADING = re.compile(r"^## (\d+\.\d+\.\d+) \((.+)\)$", re.MULTILINE)


def test_the_version_is_the_newest_of_the_changelog() -> None:
    """`.dev0` (PEP 440) until it is released, so that no build between two releases says that it is one of them."""
    newest, when = next(found.groups() for found in HEADING.finditer((ROOT / "CHANGELOG.md").read_text()))
    assert __version__ == (f"{newest}.dev0" if when == "unreleased" else newest)
    assert when != "unreleased" or newest not in {release.version for release in RELEASES}
