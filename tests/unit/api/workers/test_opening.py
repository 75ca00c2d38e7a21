"""What a remote worker says of itself is looked at before it is proposed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from raftsched.api.http.problems import Problem
from raftsched.api.workers.opening import WorkerSessionIn, check_opening
from raftsched.core.rules.allowed import Allowed
from raftsched.remote.rules import allowed_of
from raftsched.surface.worker_sessions import WorkerRules


def given(**fields: Any) -> WorkerSessionIn:
    return msgspec.convert({"name": "w1", "handlers": ["exec"], **fields}, WorkerSessionIn)


@pytest.mark.parametrize(
    ("at", "fields"),
    [
        ("/name", {"name": "a/b"}),
        ("/queues/0", {"queues": ["A"]}),
        ("/namespaces", {"namespaces": []}),
        ("/handlers", {"handlers": []}),
        ("/handlers/1", {"handlers": ["exec", "call:"]}),
        ("/labels/", {"labels": {"": "x"}}),
        ("/incarnation", {"incarnation": "\u00fc" * 100}),
        ("/users/0", {"users": ["svc"]}),
        ("/users/1", {"users": ["default:svc", "billing:a b"]}),
        ("/allowed", {"allowed": {"http_allow": ["10.0.0.0/33"]}}),
    ],
)
def test_what_is_wrong_is_named(at: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Problem) as problem:
        check_opening(given(**fields))
    assert [error.pointer for error in problem.value.errors] == [at]


def test_rules_and_users_are_taken_as_those_of_nodes() -> None:
    rules = {"exec_allow": ["/opt/*"], "http_allow": ["private"], "env_allow": ["APP_*"]}
    worker = given(users=["default:svc", "billing:"], allowed=rules)
    check_opening(worker)
    assert worker.allowed is not None
    assert allowed_of(worker.allowed) == Allowed(exec=("/opt/*",), http=("private",), env=("APP_*",))


def test_rules_that_say_nothing_are_not_sent_for_nodes_may_not_know_them() -> None:
    assert msgspec.json.encode(WorkerRules(exec_allow=["/opt/*"])) == b'{"exec_allow":["/opt/*"]}'
