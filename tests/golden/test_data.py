"""Data directories of released versions are opened, and hold what they held; what commands got since is of a later
level. See README.md."""

from __future__ import annotations

import tarfile
from pathlib import Path

import msgspec
import pytest

from raftsched.core import commands as c
from raftsched.core.levels import FIRST_LEVEL, HISTORY, PARTS_SINCE, SINCE
from tests.golden.parts import kept_parts, parts
from tests.golden.record_data import DATA, ROWS, rows_of
from tests.golden.releases import RELEASES, Release
from tests.golden.test_golden import grown

# What came after a version (version -> which structs have got fields since): its rows may go on where they ended.
_VARIABLES = "Policy and Allowed: the variables that a job sets, and those that a node takes from it"
GROWN: dict[str, str] = {
    "0.1.0": f"Settings and Namespace: on how many nodes output is; {_VARIABLES}",
    "0.2.0": _VARIABLES,
}

COMMANDS = {kind for kind, _ in c.COMMANDS.values()}


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_the_store_has_the_same_rows(release: Release, tmp_path: Path) -> None:
    with tarfile.open(release.data) as tar:
        tar.extractall(tmp_path, filter="data")
    was = msgspec.msgpack.decode((tmp_path / ROWS).read_bytes(), type=list[tuple[int, bytes, bytes]])
    rows = rows_of(tmp_path / DATA / "store")
    assert [row[:2] for row in rows] == [row[:2] for row in was]
    for (table, key, value), (_, _, before) in zip(rows, was, strict=True):
        same = grown(before, value) if release.version in GROWN else before == value
        assert same, f"table {table}, key {key!r}: was {before!r}, is {value!r}"


def test_the_list_has_them_in_their_order_and_knows_their_levels() -> None:
    levels = [release.level for release in RELEASES]
    assert levels == sorted(levels)
    assert set(levels) <= HISTORY.keys()


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_what_came_after_a_release_is_of_a_later_level(release: Release) -> None:
    """Else a leader would propose what a node of that version cannot read, and the cluster would not know."""
    known, levels = kept_parts(release.version)
    assert {kind.__name__: since for kind, since in SINCE.items() if since <= release.level} == levels
    now, types = parts()
    assert {name: of for name, of in known.items() if name not in now} == {}
    for name, of in now.items():
        kind = types[name]
        if name in known:
            assert of[: len(known[name])] == known[name], f"{name}: only what is last may be new"
            for new in of[len(known[name]) :]:
                since = PARTS_SINCE.get((kind, new), FIRST_LEVEL)
                assert since > release.level, f"{name}.{new} came after {release.version}: name it in PARTS_SINCE"
        elif kind in COMMANDS:
            since = SINCE.get(kind, FIRST_LEVEL)
            assert since > release.level, f"{name} came after {release.version}: name its level in SINCE"
