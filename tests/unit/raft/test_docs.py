"""docs/raft.md names every guard, and nothing that is none."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from raftsched.raft.guards import Guards

PAGE = Path(__file__).parents[3] / "docs" / "raft.md"


def test_the_page_names_every_guard() -> None:
    named = set(re.findall(r"`([a-z_]+)`", PAGE.read_text()))
    missing = {field.name for field in fields(Guards)} - named
    assert not missing


def test_the_tests_that_the_page_names_exist() -> None:
    root = Path(__file__).parents[3]
    for name in re.findall(r"`((?:tests/[a-z_/]+)?test_[a-z_]+\.py)`", PAGE.read_text()):
        assert (root / name).exists() or list(Path(__file__).parent.rglob(name)), name
