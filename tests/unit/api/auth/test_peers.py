"""Calls to other nodes: what is wrong with the files of certificates is said by the options that name them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftsched.api.auth.peers import trust
from raftsched.api.http.problems import Problem
from raftsched.api.http.tls import PeerTrust
from tests.support.authority import ca_file, certificate, put


def asked(trusted: PeerTrust) -> str:
    """Returns what the caller of a node that cannot call others is told."""
    context = cast(Any, SimpleNamespace(security=SimpleNamespace(peer_trust=trusted)))
    with pytest.raises(Problem) as problem:
        asyncio.run(trust(context, "https://n2:7401"))
    assert problem.value.code == "output-unavailable"
    return str(problem.value)


def test_a_key_of_another_certificate_is_named_as_that(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cert, _ = put(tmp_path, certificate("n1"), "n1")
    _, key = put(tmp_path, certificate("n2"), "n2")
    assert "certificates with which this node calls others" in asked(PeerTrust(None, ca_file(), [(cert, key)]))
    (line,) = caplog.records
    assert "the key that this node shows itself with is not that of its certificate" in line.getMessage()
    assert "--raft-cert and --raft-key, or without them --tls-cert and --tls-key" in line.getMessage()
    assert "--tls-ca" not in line.getMessage()


def test_files_that_are_missing_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    asked(PeerTrust(tmp_path / "gone.pem", None, []))
    assert "--tls-ca" in caplog.text
    assert "No such file" in caplog.text
