"""The newest part of the changelog says each change in a line or two; what there is to know stands on a page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
# The newest that says something: a version of which nobody has said anything yet is an empty heading.
NEWEST = next(part for part in PARTS if part.partition("\n")[2].strip())
GROUPS = [part for part in re.split(r"^(?=\*\*)", NEWEST, flags=re.MULTILINE) if part.startswith("**")]
ENTRY_MAX = 330  # characters that are read: two lines, of the length that lines have here
LINES_MAX = 130  # of one version: a page, which is read to its end
_ADDRESS = re.compile(r"\]\([^)]*\)")


def entries(group: str) -> list[str]:
    return [" ".join(entry.split()) for entry in re.split(r"^- ", group, flags=re.MULTILINE)[1:]]


def test_it_is_a_page() -> None:
    assert len(NEWEST.splitlines()) <= LINES_MAX, "say in one line what many small changes come to"


def test_each_entry_is_a_line_or_two() -> None:
    assert GROUPS
    long = [entry for group in GROUPS for entry in entries(group) if len(_ADDRESS.sub("]", entry)) > ENTRY_MAX]
    assert not long, "move what there is to know to the page of docs/ that is about it, and link there"


def test_each_entry_or_its_group_leads_to_a_page() -> None:
    for group in GROUPS:
        heading = group.partition("\n- ")[0]
        without = [entry for entry in entries(group) if not _ADDRESS.search(entry)]
        assert _ADDRESS.search(heading) or not without, f"{heading}: no page has more of {without[:1]}"
