"""What a node's configuration says of all runs there."""

from __future__ import annotations

import os
from pwd import getpwnam
from typing import Any

import pytest

from raftsched.config.runs import RunsConfig, build_runs
from raftsched.errors import Exit, StartupError
from raftsched.worker.processes.run_as import RunAs, UnknownUser, held_back, offered, own_name, users_of


@pytest.mark.parametrize(
    "given",
    [
        {"run_as": ("default=nobody", "billing=svc"), "users_allowed": ("billing=a", "billing=b", "hr=")},
        {"run_as": "nobody,billing=svc", "users_allowed": "billing=a,billing=b,hr="},
        {"run_as": {"default": "nobody", "billing": "svc"}, "users_allowed": {"billing": ["a", "b"], "hr": []}},
    ],
)
def test_flags_variables_and_files_say_the_same(given: dict[str, Any]) -> None:
    runs = build_runs(given)
    assert runs.run_as == {"default": "nobody", "billing": "svc"}
    assert runs.users_allowed == {"billing": ("a", "b"), "hr": ()}
    assert RunAs(runs.run_as, runs.users_allowed).announced == (
        *("billing:a", "billing:b", "billing:svc"),
        *("default:nobody", "hr:nobody"),
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run_as": "a=b=c"}, "is no namespace"),
        ({"run_as": "Billing=svc"}, "is no namespace"),
        ({"run_as": ("a=x", "a=y")}, "is there twice"),
        ({"run_as": "a=1st"}, "is no name of a user"),
        ({"run_as": 7}, "must be a table"),
        ({"run_as": {"a": 7}}, "must be text"),
        ({"users_allowed": "a=b c"}, "is no name of a user"),
        ({"nice": "20"}, "nice must be a whole number from 0 to 19"),
        ({"nice": -1}, "nice must be"),
        ({"nice": True}, "nice must be"),
        ({"pids_max": "3"}, "pids_max must be a whole number from 16"),
        ({"pids_max": True}, "pids_max"),
        ({"memory_max": "1KiB"}, "memory_max must be from 16MiB"),
        ({"memory_max": "much"}, "memory_max"),
        ({"allow_new_privileges": "perhaps"}, "must be true or false"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        build_runs(given)
    assert "\n" not in str(refused.value)


def test_a_node_that_may_become_nobody_else_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.worker.processes.run_as._missing_capabilities", lambda: ["CAP_SETUID"])
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    with pytest.raises(StartupError, match="it lacks CAP_SETUID; start it as root, or with AmbientCapab") as refused:
        users_of(RunsConfig(run_as={"default": "nobody"}), own_process=True)
    assert refused.value.exit is Exit.USAGE


def test_a_users_own_node_needs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.worker.processes.run_as._missing_capabilities", lambda: ["CAP_SETUID"])
    found = users_of(RunsConfig(run_as={"default": own_name()}), own_process=True)
    assert found.of("billing") == ""
    assert found.users == {}


def test_root_runs_jobs_as_nobody_until_it_is_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.worker.processes.run_as._missing_capabilities", list)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert users_of(RunsConfig(), own_process=True).of("billing") == "nobody"
    assert users_of(RunsConfig(run_as={"default": "root"}), own_process=True).of("billing") == ""
    assert users_of(RunsConfig(), own_process=False).of("billing") == "", "a program that carries a node says itself"


ALL = ("exec", "shell", "python", "http", "call")


@pytest.mark.parametrize(
    ("uid", "own_process", "settings", "found"),
    [
        (12_345, True, {}, ("http", "call")),
        (0, False, {}, ("http", "call")),  # a program of root that carries a node
        (0, True, {}, ALL),  # as nobody
        (12_345, True, {"jobs_as_node": "true"}, ALL),
        (0, False, {"jobs_as_node": True}, ALL),
        (12_345, True, {"run_as": "nobody"}, ALL),
        (12_345, True, {"run_as": "default=nobody,billing=daemon"}, ALL),
        (12_345, True, {"run_as": "billing=nobody"}, ("http", "call")),  # of others they would be its own
        (12_345, True, {"users_allowed": "nobody"}, ("http", "call")),
        (getpwnam("nobody").pw_uid, True, {"run_as": "nobody"}, ("http", "call")),  # its own, by name
        (getpwnam("nobody").pw_uid, True, {"run_as": "default=daemon,billing=nobody"}, ("http", "call")),
        (getpwnam("nobody").pw_uid, True, {"run_as": "daemon", "users_allowed": "nobody"}, ("http", "call")),
        (getpwnam("nobody").pw_uid, True, {"run_as": "nobody", "jobs_as_node": True}, ALL),
        (0, True, {"run_as": "root"}, ALL),  # root is named on purpose, and warned of at each start
    ],
)
def test_programs_are_no_nodes_own_until_that_is_said(
    monkeypatch: pytest.MonkeyPatch, uid: int, own_process: bool, settings: dict[str, Any], found: tuple[str, ...]
) -> None:
    monkeypatch.setattr("raftsched.worker.processes.run_as._missing_capabilities", list)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    runs = build_runs(settings)
    run_as = users_of(runs, own_process=own_process)
    assert offered(ALL, runs, run_as) == found
    assert offered(("http",), runs, run_as) == ("http",)
    words = held_back(ALL, found)
    assert ("exec, shell, python are not offered" in words) == (found != ALL)
    assert ("say --run-as default=USER, of another user, or --jobs-as-node" in words) == (found != ALL)
    assert held_back(("http",), ("http",)) == ""


def test_a_job_gets_whom_its_node_allows_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftsched.worker.processes.run_as._missing_capabilities", list)
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    found = users_of(RunsConfig(run_as={"default": "nobody"}, users_allowed={"billing": ("daemon",)}), own_process=True)
    assert found.of("billing") == "nobody"
    assert found.of("billing", "daemon") == "daemon"
    for namespace, wanted in (("shop", "daemon"), ("billing", "root"), ("shop", "root")):
        with pytest.raises(UnknownUser, match=f"of the namespace {namespace} as the user"):
            found.of(namespace, wanted)
