"""ARCHITECTURE.md has every room, with what it may import, and every dependency."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.unit.test_rooms import LEAVES, ROOMS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()


def test_every_room_is_there_with_what_it_may_import() -> None:
    table = PAGE.partition("| room | what it is |")[2].partition("\n\n")[0]
    rows = {
        room: imports
        for rooms, imports in re.findall(r"^\| (`\w+/`(?:, `\w+/`)*) \|.*\| ([^|]*) \|$", table, re.MULTILINE)
        for room in re.findall(r"`(\w+)/`", rooms)
    }
    assert rows.keys() == ROOMS.keys()
    for room in ROOMS.keys() - {"client", "cli", "embedded", "testing", "node"}:  # rows of several, or of everything
        named = set(re.findall(r"\w+", rows[room])) & ROOMS.keys()
        assert named == ROOMS[room], room


def test_the_modules_that_are_no_rooms() -> None:
    named = re.findall(r"^Modules at the top that are no rooms \((.*?)\)", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", named[0])) == LEAVES - ROOMS.keys()


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = PAGE.partition("## Dependencies, and why each is there")[2]
    for needed in project["dependencies"]:
        name = re.split(r"[^\w-]", needed)[0].lower()
        assert re.search(rf"^\|[^|]*\b{re.escape(name)}\b[^|]*\|", table, re.MULTILINE), name
