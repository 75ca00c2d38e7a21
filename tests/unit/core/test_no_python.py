"""Nodes on which jobs of some users cannot run functions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec.structs import replace as with_

from raftsched.core.commands import decode, encode
from raftsched.core.levels import fitted, is_later
from raftsched.core.rows import SESSIONS
from raftsched.core.rules.eligibility import Offer, lacking, offer
from raftsched.core.subjects.cluster import NodeRule, NoPython, OpenSession
from tests.support.memory_view import World

RULES: NoPython = (("a", ("y",)), ("default", ("", "x")))
NODE = Offer("n1", 1, frozenset(("exec", "python", "call:f")), frozenset(), False, frozenset(("a:y", "a:z", "b:x")))
UNFIT = replace(NODE, no_python=RULES)


@pytest.mark.parametrize(
    ("kind", "namespace", "user", "can"),
    [
        ("python", "a", "", True),
        ("python", "a", "a:y", False),
        ("python", "a", "a:z", True),
        ("python", "b", "", False),
        ("call:f", "b", "", False),
        ("call:f", "b", "b:x", False),
        ("exec", "b", "", True),
        ("exec", "a", "a:y", True),
    ],
)
def test_which_runs_it_takes(kind: str, namespace: str, user: str, can: bool) -> None:
    policy = with_(World().create().policy, required_capability=kind, user=user)
    assert NODE.can(policy, namespace)
    assert UNFIT.can(policy, namespace) == can
    if not can:
        assert "can start its Python as the user of this job; its log says why." in lacking([UNFIT], policy, namespace)


def test_that_nobody_can_start_it_may_be_why_there_is_none() -> None:
    policy = with_(World().create().policy, required_capability="python")
    without = replace(NODE, handlers=frozenset(("exec", "shell")))
    assert "as users who cannot start its Python leaves python and call out" in lacking([without], policy, "default")


def test_others_take_all_that_it_takes() -> None:
    assert NODE.takes_all_of(UNFIT)
    assert UNFIT.takes_all_of(UNFIT)
    assert not UNFIT.takes_all_of(NODE)


def test_its_session_says_so_from_a_level_on() -> None:
    world = World()
    opening = OpenSession("n1", 0, "b", b"n", 1, handlers=("python",), no_python=RULES)
    raw = encode(opening)
    assert not is_later(raw, 6)
    assert is_later(raw, 5)
    assert decode(fitted(raw, 5)) == with_(opening, no_python=())
    number = world.ok(decode(raw)).number
    assert number is not None
    session = SESSIONS.get(world.view, number)
    assert session is not None
    assert offer(session, NodeRule()).no_python == RULES
