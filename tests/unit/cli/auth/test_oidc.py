"""`raftsched oidc`: the setting as commands say and show it."""

from __future__ import annotations

import json

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import run

PATH = "/v1/cluster/oidc"
SET = {
    "issuer": "https://login.example.com", "audience": "raftsched", "client_id": None, "username_claim": None,
    "algorithms": ["RS256"], "revision": 1,
    "rules": [
        {"claim": "groups", "value": "a:b=c", "role": "operator", "namespaces": None},
        {"claim": "groups", "value": "web", "role": "editor", "namespaces": ["web", "x"]},
    ],
}  # fmt: skip
RULES = ("--rule", "groups=a:b=c:operator", "--rule", "groups=web:editor@web,x")


def test_it_is_set_and_shown() -> None:
    with serve(lambda r: (200, SET)) as stub:
        said = ("--issuer", SET["issuer"], "--audience", "raftsched", *RULES)
        assert run("--server", stub.url, "oidc", "set", *map(str, said)).exit_code == 0
        sent = json.loads(stub.requests[-1].body)
        assert sent["rules"] == [
            {"claim": "groups", "value": "a:b=c", "role": "operator"},
            {"claim": "groups", "value": "web", "role": "editor", "namespaces": ["web", "x"]},
        ]
        assert sent.keys() == {"issuer", "audience", "rules"}
        shown = run("--server", stub.url, "oidc", "get")
        assert "groups=web:editor@web,x" in shown.output
        found = run("--server", stub.url, "oidc", "get", "-o", "json")
        assert run("--server", stub.url, "oidc", "set", "-f", "-", input=found.stdout).exit_code == 0
        assert json.loads(stub.requests[-1].body) == {k: v for k, v in SET.items() if k != "revision"}
        assert run("--server", stub.url, "oidc", "delete", "--yes").exit_code == 0
        assert stub.requests[-1].method == "DELETE"


@pytest.mark.parametrize("rule", ["groups", "groups=x", "groups=x:root", "=x:viewer", "g=x:viewer@A", "g=x:viewer@"])
def test_rules_that_are_none(rule: str) -> None:
    assert run("--server", "http://127.0.0.1:1", "oidc", "set", "--rule", rule).exit_code == 2


def test_all_by_a_file_or_none() -> None:
    assert run("--server", "http://127.0.0.1:1", "oidc", "set", "-f", "-", "--issuer", "x", input="{}").exit_code == 2
