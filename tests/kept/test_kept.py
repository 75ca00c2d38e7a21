"""What a user has is what was kept: the description of the API, the Python client, the command line, and answers.

Whoever changes it on purpose records it anew (tests/kept/record.py) and names each line of the difference in the
CHANGELOG."""

from __future__ import annotations

import json
import re
from collections import defaultdict

import pytest

from tests.kept.answers import TEXTS
from tests.kept.record import FOLDER, KEPT, difference, shown

OF_NODES = {"output_copies_put"}  # taken from the nodes of the cluster alone


@pytest.mark.parametrize("name", KEPT)
def test_nothing_differs_from_what_was_kept(name: str) -> None:
    lines = difference(name, KEPT[name]())
    assert not lines, "\n".join([*shown(lines), f"if it is meant: python -m tests.kept.record {name}"])


def test_each_operation_is_asked_well_and_badly() -> None:
    """Reads what is kept: the test above holds it against what is so."""
    described = json.loads((FOLDER / "openapi.json").read_text(encoding="utf-8"))
    names = {
        one["operationId"] for path in described["paths"].values() for one in path.values() if isinstance(one, dict)
    }
    found: dict[str, list[int]] = defaultdict(list)
    for file in TEXTS:
        text = (FOLDER / file).read_text(encoding="utf-8")
        for name, status in re.findall(r"^### (\w+)[^\n]*\n.*?^-> (\d+)$", text, re.MULTILINE | re.DOTALL):
            found[name].append(int(status))
    assert {name for name in names if len(found[name]) < 3} == set()
    assert {name for name in names if min(found[name]) >= 400} == OF_NODES
    assert {name for name in names if max(found[name]) < 400} == set()
    assert sum(map(len, found.values())) >= 1_000
