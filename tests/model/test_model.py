"""With all rules nothing is found; with any one out there is a way to two at once."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.model import lease, sessions

LEASE = lease.Bounds(ttl=2, time=6)
SESSIONS = sessions.Bounds(log=6, openings=2, tokens=2, messages=6)

# What a leader refuses to a worker that asks on although its lease ran out: without either nothing is lost.
IN_RESERVE = "nothing_after_declaring"


def test_the_lease_holds_with_all_rules() -> None:
    found = lease.explore(lease.Rules(), LEASE)
    assert found.whole
    assert found.wrong is None, found.steps


@pytest.mark.parametrize("rule", [one.name for one in fields(lease.Rules) if one.name != IN_RESERVE])
def test_each_rule_of_the_lease_is_needed(rule: str) -> None:
    found = lease.explore(lease.Rules(**{rule: False}), LEASE)
    assert found.wrong == lease.ALIVE


def test_nothing_is_granted_to_a_declared_session_in_case_its_worker_asks_on() -> None:
    found = lease.explore(lease.Rules(nothing_after_declaring=False), LEASE)
    assert found.whole
    assert found.wrong is None
    both = lease.explore(lease.Rules(nothing_after_declaring=False, stays_over=False), LEASE)
    one = lease.explore(lease.Rules(stays_over=False), LEASE)
    assert both.wrong == lease.ALIVE
    assert len(both.steps) < len(one.steps)  # one leader is enough


def test_sessions_hold_with_all_rules() -> None:
    found = sessions.explore(sessions.Rules(), SESSIONS)
    assert found.whole
    assert found.wrong is None, found.steps


@pytest.mark.parametrize("rule", [one.name for one in fields(sessions.Rules)])
def test_each_rule_of_sessions_is_needed(rule: str) -> None:
    found = sessions.explore(sessions.Rules(**{rule: False}), SESSIONS)
    assert found.wrong in (sessions.ENDED_ALIVE, sessions.STARTED_OVER)


def test_an_opening_that_was_overtaken_would_end_the_session_of_a_later_one() -> None:
    found = sessions.explore(sessions.Rules(opening_rises=False), SESSIONS)
    assert found.steps[-1].startswith("opening 1 makes session 2")
    assert "it starts run 1" in found.steps
