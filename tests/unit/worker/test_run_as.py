"""Users of runs: whom several namespaces share, whose processes would be counted together."""

from __future__ import annotations

import pytest

from raftsched.worker.processes.run_as import RunAs
from raftsched.worker.processes.users import User


@pytest.mark.parametrize(
    ("run_as", "says"),
    [
        ({}, None),
        ({"a": "x", "b": "y"}, None),
        ({"default": "own", "a": "x"}, None),  # nothing of the node's own user is counted
        ({"default": "x"}, "x runs jobs of all namespaces that --run-as does not name"),
        ({"b": "x", "a": "x", "c": "y"}, "x runs jobs of a and b"),
    ],
)
def test_whom_namespaces_share_is_said(run_as: dict[str, str], says: str | None) -> None:
    found = RunAs(run_as)
    found.users = {name: User(name, 1, 1, (), "/", "/bin/sh") for name in run_as.values() if name != "own"}
    assert found.shared() == says
