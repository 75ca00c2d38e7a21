"""One rule for each kind of name, and none of them lets "." or ".." into an address."""

from __future__ import annotations

import re

import pytest

from raftsched import names
from raftsched.core import commands as c
from raftsched.core.subjects.access import Role
from raftsched.core.subjects.webhook import PutWebhook, WebhookSpec
from raftsched.names import NameRule
from tests.support.memory_view import World, policy

RULES = {name: rule for name, rule in vars(names).items() if isinstance(rule, NameRule)}
PLAIN = [
    names.JOB,
    names.NAMESPACE,
    names.QUEUE,
    names.CALENDAR,
    names.WEBHOOK,
    names.SECRET,
    names.NODE,
    names.HANDLER,
]


@pytest.mark.parametrize("rule", PLAIN, ids=lambda rule: rule.kind)
@pytest.mark.parametrize("name", ["a", "...", ".a", "..a", "a.", "-x", "_", "a" * 64])
def test_names_that_are_taken(rule: NameRule, name: str) -> None:
    assert rule.allows(name)


@pytest.mark.parametrize("rule", PLAIN, ids=lambda rule: rule.kind)
@pytest.mark.parametrize("name", ["", ".", "..", "A", "a b", "a/b", "é", "a\n", "a" * 129, "." * 129])
def test_names_that_are_refused(rule: NameRule, name: str) -> None:
    assert not rule.allows(name)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_keeps_dots_alone_out_and_takes_its_own_example(rule: NameRule) -> None:
    assert rule.allows(rule.example)
    assert re.search(rule.pattern, rule.example)
    for name in (".", "..", "", "a\n", "a\0"):
        assert not rule.allows(name)


@pytest.mark.parametrize("text", ["a", "a/b", ".a/..b", "..."])
def test_references_to_secrets(text: str) -> None:
    assert names.SECRET_REFERENCE.allows(text)


@pytest.mark.parametrize("text", ["../b", "a/..", "a/b/c", "/b", "a/", "./b"])
def test_what_is_no_reference(text: str) -> None:
    assert not names.SECRET_REFERENCE.allows(text)
    assert not names.JOB_OF_NAMESPACE.allows(text)


def test_a_log_that_holds_names_refused_today_applies_as_it_did() -> None:
    """Apply asks only whether a name can be a key, so that a stricter rule changes no log."""
    world = World()
    answer = world.ok(c.CreateJob("..", ".", policy(), b"{}"))
    assert answer.created
    world.ok(c.PutQueue("..", max_running=1))
    world.ok(c.CreateToken("..", Role.VIEWER, b"d" * 32, ("..",)))
    world.members(".. n1")
    assert world.refused(PutWebhook("..", WebhookSpec(url="http://h/"), b"s" * 24)) == "invalid-parameter"  # as ever
