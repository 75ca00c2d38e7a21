"""ARCHITECTURE.md fits one sitting, and has every room, with what it may import, functions that are there, and every
dependency."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.unit.test_rooms import LEAVES, ROOMS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
PAGE_MAX = 15_000  # bytes: half an hour, at the pace of who reads about code
WALKS = PAGE.partition("## Five walks")[2].partition("\n## ")[0]
STATIONS = re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE)


def test_it_is_read_in_one_sitting() -> None:
    assert len(PAGE.encode()) <= PAGE_MAX, "a decision, a reason or a table belongs into the DESIGN.md of its room"


def test_every_room_is_there_with_what_it_may_import() -> None:
    table = PAGE.partition("| room | what it is |")[2].partition("\n\n")[0]
    rows = {
        room: imports
        for rooms, imports in re.findall(r"^\| (`\w+/`(?:, `\w+/`)*) \|.*\| ([^|]*) \|$", table, re.MULTILINE)
        for room in re.findall(r"`(\w+)/`", rooms)
    }
    assert rows.keys() == ROOMS.keys()
    layers = {room for room, imports in rows.items() if imports == rows["django"]}  # their row says what any imports
    assert set(re.findall(r"\w+", rows["django"])) == set().union(*(ROOMS[room] for room in layers))
    for room in ROOMS.keys() - {"client", "embedded", "testing", "node"} - layers:  # rows of several
        named = set(re.findall(r"\w+", rows[room])) & ROOMS.keys()
        assert named - ({"cli"} if room == "cli" else set()) == ROOMS[room], room
    assert set(re.findall(r"\w+", rows["embedded"])) & ROOMS.keys() - {"node"} == (
        (ROOMS["embedded"] | ROOMS["testing"]) - {"embedded"}
    )


def test_the_modules_that_are_no_rooms() -> None:
    named = re.findall(r"^Modules at the top that are no rooms \((.*?)\)", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", named[0])) == LEAVES - ROOMS.keys()


def test_each_folder_of_a_room_that_the_table_names_is_there() -> None:
    table = PAGE.partition("| room | what it is |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`\w+/`(?:, `\w+/`)*) \| (.*) \| [^|]* \|$", table, re.MULTILINE)
    folders = [(room, folder) for room, what in rows for folder in re.findall(r"`(\w+)/`", what)]
    assert folders
    for rooms, folder in folders:
        inside = [ROOT / "raftsched" / room for room in re.findall(r"`(\w+)/`", rooms)]
        found = [place for room in inside for place in (room / folder, *room.glob(f"*/{folder}")) if place.is_dir()]
        assert found, f"{rooms} has no {folder}/"


def test_there_are_five_walks_of_several_stations() -> None:
    walks = [part for part in re.split(r"^(?=\*\*)", WALKS, flags=re.MULTILINE) if part.startswith("**")]
    assert len(walks) == 5
    for walk in walks:
        assert len(re.findall(r"^\d+\. ", walk, re.MULTILINE)) >= 3
        assert len(re.findall(r"\.py:", walk)) >= 5


@pytest.mark.parametrize("module, name", STATIONS)
def test_a_function_that_it_names_is_there(module: str, name: str) -> None:
    path = ROOT / "raftsched" / module
    assert path.is_file(), f"raftsched/{module} is not there; ARCHITECTURE.md names {name} of it"
    inside: ast.AST = ast.parse(path.read_text())
    for part in name.split("."):
        found = [
            node
            for node in ast.iter_child_nodes(inside)
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == part
        ]
        assert found, f"raftsched/{module} has no {name}; ARCHITECTURE.md names it"
        inside = found[0]


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    table = PAGE.partition("## Dependencies, and why each is there")[2]
    for needed in project["dependencies"]:
        name = re.split(r"[^\w-]", needed)[0].lower()
        assert re.search(rf"^\|[^|]*\b{re.escape(name)}\b[^|]*\|", table, re.MULTILINE), name
