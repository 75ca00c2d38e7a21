"""`raftsched dev --tls`: its certificates, and that the command line finds their authority."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from raftsched.cli.dev.state import CA_FILE, DEFAULT_DIR, DevState, Process
from raftsched.cli.dev.tls import flags_of, make_certificates
from raftsched.cli.remote import client
from raftsched.errors import StartupError
from raftsched.security.certificates import identities_of
from tests.support.authority import now_ms


def test_certificates_are_made_for_this_machine(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["n1", "n2"], now_ms())
    ca = (tmp_path / CA_FILE).read_bytes()
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in flags_of(tmp_path, "n2"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(flags["tls-cert"], flags["tls-key"])
    assert flags["tls-ca"] == str(tmp_path / CA_FILE)
    assert identities_of(Path(flags["tls-cert"]).read_bytes()) == [("dev", "n2")]
    for file in (tmp_path / CA_FILE).parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    before = Path(flags["tls-cert"]).read_bytes()
    make_certificates(tmp_path, ["n1", "n2"], now_ms())
    assert Path(flags["tls-cert"]).read_bytes() != before
    assert (tmp_path / CA_FILE).read_bytes() == ca  # who trusts it goes on trusting it


def test_files_that_are_no_certificates_are_said(tmp_path: Path) -> None:
    make_certificates(tmp_path, ["n1"], now_ms())
    (tmp_path / CA_FILE).write_text("nothing")
    with pytest.raises(StartupError, match="cannot be used"):
        make_certificates(tmp_path, ["n1"], now_ms())


def test_the_command_line_finds_the_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("RAFTSCHED_SERVER", raising=False)
    DEFAULT_DIR.mkdir(parents=True)
    state = DevState.new(2, 8401, tls=True)
    state.supervisor = Process.of(os.getpid())
    state.save(DEFAULT_DIR)
    found = client(None)
    assert [str(server) for server in found.servers] == ["https://127.0.0.1:8401", "https://127.0.0.1:8402"]
    assert found.trust.ca_file == str(tmp_path / DEFAULT_DIR / CA_FILE)
    loaded = DevState.load(DEFAULT_DIR)
    assert loaded is not None
    assert loaded.tls
