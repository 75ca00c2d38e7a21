"""Which settings are others in a configuration that was read again, and what a process takes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raftsched.config import node, worker
from raftsched.config.differences import TAKEN_BY_NODE, TAKEN_BY_WORKER, Changes, changed, changes
from raftsched.config.values import ConfigError

BEFORE: dict[str, Any] = {"id": "n1", "data": "/tmp/n1", "grace": "60s", "slots": "4", "labels": {"a": "1"}}


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({}, ()),
        ({"grace": "1m", "slots": 4, "labels": "a=1"}, ()),
        ({"grace": "61s"}, ("grace",)),
        ({"grace": None}, ("grace",)),
        ({"slots": 5, "labels": "a=1,b=2", "tracing": True}, ("labels", "slots", "tracing")),
        ({"http": "127.0.0.1:7401"}, ()),
        ({"no_run": True, "slots": None}, ("no_run", "slots")),
    ],
)
def test_what_has_changed_is_named(said: dict[str, Any], wanted: tuple[str, ...]) -> None:
    after = {name: value for name, value in {**BEFORE, **said}.items() if value is not None}
    assert changed(BEFORE, after, node.build) == wanted


def test_what_can_be_taken_is_told_from_what_waits_for_a_restart() -> None:
    after = {**BEFORE, "grace": "5s", "slots": 8, "log_format": "json"}
    assert changes(BEFORE, after, node.build, TAKEN_BY_NODE) == Changes(("grace", "log_format"), ("slots",))


def test_what_cannot_be_is_refused_as_a_whole() -> None:
    with pytest.raises(ConfigError, match="slots"):
        changes(BEFORE, {**BEFORE, "grace": "5s", "slots": "many"}, node.build, TAKEN_BY_NODE)


def test_what_is_taken_are_settings() -> None:
    assert set(node.SETTINGS) >= TAKEN_BY_NODE
    assert set(worker.SETTINGS) >= TAKEN_BY_WORKER


def test_certificates_that_come_together_are_both_named(tmp_path: Path) -> None:
    for name in ("cert", "key"):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(0o600)
    after = {**BEFORE, "tls_cert": str(tmp_path / "cert"), "tls_key": str(tmp_path / "key")}
    assert changed(BEFORE, after, node.build) == ("tls_cert", "tls_key")
