"""The rules of a worker (what jobs may name there), as nodes have theirs."""

from __future__ import annotations

from raftsched.core.rules.allowed import Allowed
from raftsched.hosts import rule_asked_for
from raftsched.surface.worker_sessions import WorkerRules


def allowed_of(rules: WorkerRules) -> Allowed:
    """Returns what a worker says of its rules as nodes say it of theirs."""

    def listed(items: list[str] | None) -> tuple[str, ...] | None:
        return None if items is None else tuple(items)

    return Allowed(
        listed(rules.exec_allow),
        listed(rules.cwd_allow),
        listed(rules.python_allow),
        tuple(map(rule_asked_for, rules.http_allow)),
        tuple(map(rule_asked_for, rules.http_deny)),
        listed(rules.env_allow),
    )
