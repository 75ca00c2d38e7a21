"""Instances whose needs differ never share what a cycle has found out."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from raftsched.core.model import Condition, ConditionKind, Policy
from raftsched.core.rules.allowed import allowed_of
from raftsched.core.rules.eligibility import need_of
from raftsched.core.subjects.cluster import Session
from raftsched.leader.dispatch.cycle import Cycle
from raftsched.leader.dispatch.placement import NodeLoad
from tests.support.memory_view import every

RULES = allowed_of(("exec", "http"), {"exec_allow": ("/opt/jobs/x",), "cwd_allow": ("/srv",), "env_allow": ("APP_*",)})
PLAIN = Policy(trigger=every(1_000), required_capability="exec", target="/opt/jobs/x")
OTHERS: dict[str, Any] = {
    "required_capability": "http",
    "node_labels": (("zone", "a"),),
    "user": "a",
    "target": "/opt/jobs/y",
    "cwd": "/root",
    "env": ("LD_PRELOAD",),
    "conditions": (Condition(kind=ConditionKind.PATH, target="/srv/x"),),
}


def cycle() -> Cycle:
    session = Session(
        id=1,
        node="n1",
        boot_id=b"b",
        nonce=b"n",
        ttl_ms=1,
        opened_at_ms=0,
        slots=4,
        handlers=("exec", "http"),
        allowed=RULES,
    )
    node = NodeLoad(session)
    return Cycle([node], [node], 0, 4)


@pytest.mark.parametrize("field", OTHERS)
def test_each_need_is_told_apart(field: str) -> None:
    other = replace(PLAIN, **{field: OTHERS[field]})
    assert need_of(PLAIN, "a") != need_of(other, "a"), "or it is no need"
    found = cycle()
    assert found.requirements(PLAIN, "a") != found.requirements(other, "a")


def test_a_variable_that_no_node_takes_keeps_only_its_own_job_waiting() -> None:
    evil = replace(PLAIN, env=("LD_PRELOAD",))
    for first, second in ((PLAIN, evil), (evil, PLAIN)):
        found = cycle()
        for policy in (first, second):
            assert bool(found.able(policy, "a")) is (policy is PLAIN)
            assert ("LD_PRELOAD" in found.lacking(policy, "a")) is (policy is evil)
