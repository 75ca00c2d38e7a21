"""Each decision stands once, at the door of its room, under a number of its own; docs/decisions.md lists them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.website.markdown import slug

ROOT = Path(__file__).parents[3]
DESIGNS = sorted((ROOT / "raftsched").rglob("DESIGN.md"))
INDEX = (ROOT / "docs" / "decisions.md").read_text()
HEADING = re.compile(r"^## ((\d+)\. .+)$", re.MULTILINE)


def decisions(path: Path) -> Iterator[tuple[int, str]]:
    """Yields number and heading of each decision of a room."""
    for heading, number in HEADING.findall(path.read_text()):
        yield int(number), heading


def test_each_number_is_used_once_and_none_is_missing() -> None:
    numbers = sorted(number for path in DESIGNS for number, _ in decisions(path))
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("path", DESIGNS, ids=lambda path: path.parent.name)
def test_those_of_a_room_ascend(path: Path) -> None:
    numbers = [number for number, _ in decisions(path)]
    assert numbers
    assert numbers == sorted(numbers)


def test_the_index_lists_all_with_links() -> None:
    wanted = {
        number: (
            f"| {number} | [{heading.partition('. ')[2]}](../{path.relative_to(ROOT)}#{slug(heading)}) "
            f"| `{path.parent.relative_to(ROOT / 'raftsched')}/` |"
        )
        for path in DESIGNS
        for number, heading in decisions(path)
    }
    rows = [line for line in INDEX.splitlines() if re.match(r"\| \d", line)]
    assert rows == [wanted[number] for number in sorted(wanted)]
