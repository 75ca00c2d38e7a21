"""`raftsched certs`, and which nodes start with what it makes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from raftsched.api.http.tls import TlsFiles, read
from raftsched.cli.doctor.configured import _read_authorities
from raftsched.cli.main import cli
from raftsched.client.trust import Trust
from raftsched.config.node import build
from raftsched.config.values import ConfigError
from raftsched.errors import StartupError
from raftsched.raft.transport.tls import MutualTls
from raftsched.security import certificates
from raftsched.system.clock import SystemClock
from tests.support.clock import ManualClock


def said(directory: Path, *args: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["certs", *args, "--dir", str(directory)])
    return result.exit_code, result.output


def test_what_is_made_is_for_one_node_and_its_hosts(tmp_path: Path) -> None:
    home = tmp_path / "certs"
    before = os.umask(0)
    try:
        assert said(home, "init", "--cluster", "prod")[0] == 0
        code, text = said(home, "node", "n1", "--host", "n1.example", "--host", "10.0.0.1", "--days", "7")
    finally:
        os.umask(before)
    assert code == 0
    assert "--raft-cert n1.crt --raft-key n1.key --raft-ca ca.crt" in text
    assert home.stat().st_mode & 0o777 == 0o700
    assert {file.name: file.stat().st_mode & 0o777 for file in home.iterdir()} == dict.fromkeys(
        ["ca.crt", "ca.key", "n1.crt", "n1.key"], 0o600
    )
    pem = (home / "n1.crt").read_bytes()
    assert certificates.identities_of(pem) == [("prod", "n1")]
    made = x509.load_pem_x509_certificate(pem)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1.example", "localhost"]
    assert [str(found) for found in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1", "127.0.0.1", "::1"]
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days == 7
    assert MutualTls(
        "n1", home / "n1.crt", home / "n1.key", home / "ca.crt", SystemClock(), print
    ).contexts().names == ("prod", "n1")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    code, text = said(tmp_path, "node", "n1")
    assert code == 1
    assert f"raftsched certs init --dir {tmp_path}" in text
    for args in (["init"], ["node", "n1"]):
        assert said(tmp_path, *args)[0] == 0
        had = {file: file.read_bytes() for file in tmp_path.iterdir()}
        code, text = said(tmp_path, *args)
        assert code == 4
        assert "is not overwritten" in text
        (tmp_path / "n1.key").unlink(missing_ok=True)
        assert said(tmp_path, *args)[0] == 4, "the certificate is there"
        assert {file: file.read_bytes() for file in tmp_path.iterdir()} == {
            file: content for file, content in had.items() if file.name != "n1.key"
        }


@pytest.mark.parametrize(
    "args", [["node", "N 1"], ["node", "n1", "--host", "bücher.example"], ["node", "n1", "--days", "0"]]
)
def test_what_cannot_be_is_refused(tmp_path: Path, args: list[str]) -> None:
    assert said(tmp_path, "init")[0] == 0
    assert said(tmp_path, *args)[0] in (1, 2)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["ca.crt", "ca.key"]


def test_a_node_takes_all_three_files_or_none(tmp_path: Path) -> None:
    said(tmp_path, "init")
    said(tmp_path, "node", "n1")
    files = {"raft_cert": tmp_path / "n1.crt", "raft_key": tmp_path / "n1.key", "raft_ca": tmp_path / "ca.crt"}
    settings = {"id": "n1", "data": "d", **{name: str(file) for name, file in files.items()}}
    config = build(settings)
    assert (config.raft_cert, config.raft_key, config.raft_ca) == tuple(files.values())
    for name in files:
        with pytest.raises(ConfigError, match=f"say --{name.replace('_', '-')} FILE as well"):
            build({key: value for key, value in settings.items() if key != name})
    with pytest.raises(ConfigError, match="exclude each other"):
        build({**settings, "insecure_raft": True})
    with pytest.raises(ConfigError, match=r"raft_ca .* cannot be read"):
        build({**settings, "raft_ca": str(tmp_path / "none")})


def test_comments_beside_authorities_may_be_in_any_encoding(tmp_path: Path) -> None:
    said(tmp_path, "init")
    said(tmp_path, "node", "n1")
    cert, key, ca = tmp_path / "n1.crt", tmp_path / "n1.key", tmp_path / "ca.crt"
    ca.write_bytes("# Főtanúsítvány\n".encode() + ca.read_bytes() + b"# \xff\n")
    assert MutualTls("n1", cert, key, ca, SystemClock(), print).contexts().names[1] == "n1"
    assert read(TlsFiles(cert, key, ca)).context.get_ca_certs()
    assert Trust(str(ca)).context().get_ca_certs()
    _read_authorities(ca)


def test_what_a_node_cannot_use_is_said(tmp_path: Path) -> None:
    said(tmp_path, "init")
    said(tmp_path, "node", "n1")
    said(tmp_path, "node", "n2")
    cert, key, ca = tmp_path / "n1.crt", tmp_path / "n1.key", tmp_path / "ca.crt"

    def wrong(node: str = "n1", cert: Path = cert, key: Path = key, ca: Path = ca) -> str:
        with pytest.raises(StartupError) as caught:
            MutualTls(node, cert, key, ca, SystemClock(), print)
        return caught.value.detail

    assert "names raftsched://raftsched/n1" in wrong("n2")
    assert "raftsched certs node n2" in wrong("n2")
    assert "key values mismatch" in wrong(key=tmp_path / "n2.key")
    assert "no certificates of authorities" in wrong(ca=key)
    assert "not a certificate" in wrong(cert=key)
    assert "cannot be read" in wrong(ca=tmp_path / "none")
    key.chmod(0o640)
    assert f"chmod 600 {key}" in wrong()


def test_a_certificate_that_ends_soon_is_told_of_once_an_hour(tmp_path: Path) -> None:
    said(tmp_path, "init")
    said(tmp_path, "node", "n1", "--days", "15")
    clock, lines = ManualClock(), []
    clock.wall += SystemClock().wall_ms() - clock.wall_ms()
    wire = MutualTls("n1", tmp_path / "n1.crt", tmp_path / "n1.key", tmp_path / "ca.crt", clock, lines.append)
    wire.tick()
    assert lines == []
    for _ in range(4):
        clock.forward(1000 * (86_400))
        wire.tick()
        wire.tick()
    assert [line.partition(" ends in ")[2][:4] for line in lines] == ["14.0", "13.0", "12.0", "11.0"]
    clock.forward(1000 * (20 * 86_400))
    wire.tick()
    assert "has ended" in lines[-1]
