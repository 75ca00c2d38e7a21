"""What the log reminds of: at each start, and every hour that whoever reaches the node runs programs there."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from raftsched.config.cautions import EVERY_S, Cautions
from raftsched.config.node import build
from tests.support.clock import ManualClock

BASE = {"id": "n1", "data": "/var/lib/n1"}


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return found


@pytest.mark.parametrize(
    ("settings", "uid", "locked", "words"),
    [
        ({}, 1000, False, []),
        ({}, 0, False, ["runs as root"]),
        ({"run_as": "root"}, 0, False, ["node runs as root", "jobs run as root"]),
        ({"http": "10.0.0.1:7401", "insecure_http": True}, 1000, True, ["is plain", "bootstrap --data /var/lib/n1"]),
        ({"http": "10.0.0.1:7401", "insecure_http": True, "open": True}, 1000, False, ["is plain", "is open"]),
        ({"open": True}, 1000, False, []),
        ({"jobs_as_node": True}, 1000, False, []),
        ({"http": "10.0.0.1:7401", "insecure_http": True, "jobs_as_node": True}, 1000, False, ["as the user", "plain"]),
        ({"http": "10.0.0.1:7401", "insecure_http": True, "jobs_as_node": True}, 0, False, ["runs as root", "plain"]),
        ({"exec_allow": "/opt/a", "executors": "exec", "env_allow": "A_*,*"}, 1000, False, ["matches any variable"]),
        ({"exec_allow": "/opt/a", "executors": "exec", "env_allow": "A_*"}, 1000, False, []),
    ],
)
def test_at_each_start(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any], uid: int, locked: bool, words: list[str]
) -> None:
    Cautions(build({**BASE, **settings}), ManualClock(), uid).at_start(locked)
    found = said(caplog)
    assert len(found) == len(words)
    for line, word in zip(found, words, strict=True):
        assert word in line


def test_jobs_that_are_apart_from_the_node_are_no_danger_to_it(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"http": "10.0.0.1:7401", "insecure_http": True, "jobs_as_node": True, "run_as": "nobody"}
    for apart, words in ((True, ["plain"]), (False, ["as the user", "plain"])):
        Cautions(build({**BASE, **settings}), ManualClock(), 1000).at_start(False, apart=apart)
        assert [word for word, line in zip(words, said(caplog), strict=True) if word in line] == words


def test_secrets_that_cannot_be_read_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """A key file that was lost, or left behind when a backup was restored: another key is made without a word."""
    Cautions(build(BASE), ManualClock(), 1000).at_start(False, 2)
    (line,) = said(caplog)
    assert "2 secrets are sealed with a cluster key that this node does not have" in line


def test_every_hour_that_it_is_open(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    config = build({**BASE, "http": "10.0.0.1:7401", "insecure_http": True, "open": True})
    cautions = Cautions(config, clock, 1000)
    for _ in range(3):
        clock.forward(int(EVERY_S * 1000) - 1)
        cautions.warn_again()
        assert said(caplog) == []
        clock.forward(1)
        cautions.warn_again()
        (line,) = said(caplog)
        assert "--open" in line
        cautions.warn_again()
        assert said(caplog) == []
