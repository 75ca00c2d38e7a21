"""docs/concepts.md: the states of a run, and what each can become, are those of the table of transitions."""

from __future__ import annotations

import re
from pathlib import Path

from raftsched.core.model import FINAL, InstanceState
from raftsched.core.transitions import INSTANCE

PAGE = (Path(__file__).parents[3] / "docs" / "concepts.md").read_text()
KILLED = InstanceState.KILLED
NAMES = re.compile(r"\b(" + "|".join(state.name for state in InstanceState) + r")\b")


def states(cell: str) -> set[InstanceState]:
    return {InstanceState[name] for name in NAMES.findall(cell)}


def test_each_state_is_there_with_what_it_can_become() -> None:
    rows = re.findall(r"^\| ([A-Z_, ]+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
    said = {state: states(can_become) for names, _, can_become in rows for state in states(names)}
    said[InstanceState.LAUNCHED] |= said[InstanceState.RUNNING]  # "and what that can become"
    assert said.keys() == {*InstanceState}
    for state, after in said.items():
        possible = {to for (at, _), to in INSTANCE.items() if at is state and to is not state}
        assert after == possible - {KILLED}, state.name
        assert (KILLED in possible) is (state not in FINAL), state.name
