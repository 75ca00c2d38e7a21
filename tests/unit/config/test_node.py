"""A node's configuration: the order of the sources, and an error that helps for everything that is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from raftsched.config.addresses import Address, parse_address, parse_peers
from raftsched.config.flags import FLAGS
from raftsched.config.node import build, load
from raftsched.config.values import ConfigError, Unprotected
from raftsched.config.work import parse_labels
from raftsched.core.rules.allowed import Allowed
from raftsched.raft import RaftOptions, elections
from raftsched.raft.proposals.committed import FRESH_MS

PEERS = "n1=127.0.0.1:7501,n2=127.0.0.1:7502,n3=127.0.0.1:7503"
BASE = {"id": "n1", "data": "/var/lib/n1"}


def test_one_node_alone_needs_an_id_and_a_directory() -> None:
    config = build(BASE)
    assert (config.http, config.raft) == (Address("127.0.0.1", 7401), Address("127.0.0.1", 7501))
    assert config.peers == {"n1": Address("127.0.0.1", 7501)}
    assert (config.advertise_http, config.advertise_raft) == (config.http, config.raft)
    assert config.slots == 32 * (os.cpu_count() or 1)
    assert (config.labels, config.pythonpath, config.join, config.cluster_key_file) == ((), (), False, None)


def test_flags_over_variables_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('id = "n1"\ndata = "d-file"\nhttp = "127.0.0.1:1001"\nslots = 7\nlabels = {disk = "ssd"}\n')
    environ = {"RAFTSCHED_DATA": "d-env", "RAFTSCHED_HTTP": "127.0.0.1:1002", "RAFTSCHED_JOB_ID": "x"}
    config = load({"http": "127.0.0.1:1003", "raft": None, "labels": (), "join": False}, environ, file)
    assert config.id == "n1"
    assert config.data == Path("d-env")
    assert config.http.port == 1003
    assert config.slots == 7
    assert config.labels == (("disk", "ssd"),)
    assert config.raft.port == 7501


def test_every_setting_has_a_variable(tmp_path: Path) -> None:
    key = tmp_path / "key"
    environ = {
        "RAFTSCHED_ID": "n2", "RAFTSCHED_DATA": "d", "RAFTSCHED_HTTP": "0.0.0.0:80", "RAFTSCHED_RAFT": "0.0.0.0:7502",
        "RAFTSCHED_PEERS": "n1=10.0.0.1:7501,n2=10.0.0.2:7502", "RAFTSCHED_ADVERTISE_HTTP": "n2.example:8080",
        "RAFTSCHED_ADVERTISE_RAFT": "10.0.0.2:7502", "RAFTSCHED_CLUSTER_KEY_FILE": str(key), "RAFTSCHED_SLOTS": "3",
        "RAFTSCHED_LABELS": "b=2,a=1", "RAFTSCHED_PYTHONPATH": str(tmp_path), "RAFTSCHED_HANDLERS": "a.b, c,a.b",
        "RAFTSCHED_JOIN": "true",
        "RAFTSCHED_INSECURE_HTTP": "yes", "RAFTSCHED_OPEN": "1",
        "RAFTSCHED_LOG_KEEP_ENTRIES": "5000", "RAFTSCHED_LOG_KEEP_BYTES": "1GiB", "RAFTSCHED_LEADER_WAIT": "2500ms",
        "RAFTSCHED_ELECTION_TIMEOUT": "3s",
    }  # fmt: skip
    config = load({}, environ)
    assert config.advertise_http == Address("n2.example", 8080)
    assert config.labels == (("a", "1"), ("b", "2"))
    assert config.pythonpath == (tmp_path,)
    assert config.handlers == ("a.b", "c")
    assert (config.slots, config.join, config.cluster_key_file) == (3, True, key)
    assert (config.log_keep_entries, config.log_keep_bytes) == (5_000, 1 << 30)
    assert config.leader_wait_ms == 2_500
    assert config.election_timeout_ms == 3_000
    assert (config.insecure_http, config.open, config.tls_cert) == (True, True, None)


@pytest.mark.parametrize("value", [PEERS, PEERS.split(","), dict(p.split("=") for p in PEERS.split(","))])
def test_peers_as_text_list_or_table(value: Any) -> None:
    config = build({**BASE, "peers": value, "cluster_key_file": "k"})
    assert list(config.peers) == ["n1", "n2", "n3"]
    assert config.peers["n3"] == Address("127.0.0.1", 7503)


def test_who_listens_everywhere_is_called_by_its_raft_address() -> None:
    config = build(
        {**BASE, "http": "0.0.0.0:7401", "raft": "0.0.0.0:7501", "peers": "n1=10.0.0.1:7501,n2=10.0.0.2:7501",
         "cluster_key_file": "k", "insecure_http": True}
    )  # fmt: skip
    assert str(config.advertise_http) == "10.0.0.1:7401"
    assert str(config.advertise_raft) == "10.0.0.1:7501"


def test_a_joining_node_need_not_be_in_the_list() -> None:
    config = build({**BASE, "id": "n4", "raft": "127.0.0.1:7504", "peers": PEERS, "join": True, "insecure_raft": True})
    assert config.peers["n4"] == Address("127.0.0.1", 7504)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"id": ""}, "id is missing; say --id n1"),
        ({"id": "N1"}, "1 to 64 characters of a-z"),
        ({"id": "a" * 65}, "1 to 64 characters of a-z"),
        ({"id": "n1/.."}, "1 to 64 characters of a-z"),
        ({"data": ""}, "data is missing"),
        ({"http": "7401"}, "write host:port"),
        ({"http": "127.0.0.1"}, "write host:port"),
        ({"http": "127.0.0.1:0"}, "1 to 65535"),
        ({"http": "127.0.0.1:65536"}, "1 to 65535"),
        ({"http": "127.0.0.1:٣"}, "1 to 65535"),
        ({"http": "::1:7401"}, "[::1]:7401"),
        ({"http": "http://127.0.0.1:7401"}, "write host:port"),
        ({"http": 7401}, "must be text"),
        ({"peers": "n2=127.0.0.1:7502"}, "this node, is not among n2"),
        ({"peers": "127.0.0.1:7501"}, "has no ="),
        ({"peers": "n1=127.0.0.1:7501,n1=127.0.0.1:7502"}, "there twice"),
        ({"peers": "n1=127.0.0.1:7501,n2=127.0.0.1:7501"}, "same address"),
        ({"peers": "n1=127.0.0.1"}, "peers: n1"),
        ({"peers": "n1=127.0.0.1:7501,N2=127.0.0.1:7502"}, "1 to 64 characters of a-z"),
        ({"peers": "n1=0.0.0.0:7501"}, "nobody can connect"),
        ({"peers": 5}, "text or a list"),
        ({"peers": "n1=127.0.0.1:7509"}, "peers say n1=127.0.0.1:7509"),
        ({"peers": PEERS, "advertise_raft": "127.0.0.1:9"}, "must be the same"),
        ({"raft": "0.0.0.0:7501", "cluster_key_file": "k"}, "--advertise-raft"),
        ({"peers": PEERS}, "raftsched keys new --file FILE"),
        ({"peers": "n2=127.0.0.1:7502", "join": True}, "--cluster-key-file"),
        ({"peers": PEERS, "cluster_key_file": "k", "insecure_raft": True}, "exclude each other"),
        ({"raft": "10.0.0.1:7501", "insecure_raft": True}, "10.0.0.1:7501 can be reached from outside"),
        ({"raft": "db1.internal:7501", "insecure_raft": True}, "for 127.0.0.1 only"),
        ({"peers": "n1=127.0.0.1:7501,n2=10.0.0.2:7501", "insecure_raft": True}, "10.0.0.2:7501"),
        ({"insecure_raft": "perhaps"}, "true or false"),
        ({"advertise_http": "0.0.0.0:80"}, "nobody can connect"),
        ({"slots": "0"}, "from 1 to"),
        ({"log_format": "xml"}, "text or json"),
        ({"output_max": "1KiB"}, "output_max must be from 4KiB to 256MiB"),
        ({"output_keep_bytes": "1MiB"}, "output_keep_bytes must be from 256MiB to"),
        ({"output_copies_bytes": "1MiB"}, "output_copies_bytes must be from 256MiB to"),
        ({"output_store_bytes": "1GiB"}, "output_store_bytes says nothing without output_store"),
        ({"output_store": "/o", "output_store_bytes": "1MiB"}, "output_store_bytes must be from 256MiB to"),
        ({"output_store": 5}, "output_store must be text"),
        ({"s3_endpoint": 5}, "s3_endpoint must be text"),
        ({"output_keep": "1s"}, "output_keep must be from 1h to 3650d"),
        ({"output_keep": "soon"}, "output_keep 'soon'"),
        ({"slots": "many"}, "whole number"),
        ({"slots": True}, "whole number"),
        ({"labels": "ssd"}, "key=value"),
        ({"labels": "a b=c"}, "1 to 64 letters"),
        ({"labels": ["a=1", "a=2"]}, "twice with different values"),
        ({"pythonpath": "/nowhere/at/all"}, "not a directory"),
        ({"handlers": "shop/tasks.py"}, "is not a module; write its dotted name"),
        ({"join": "perhaps"}, "true or false"),
        ({"join": True}, "at least one running member"),
        ({"join": True, "peers": "n1=127.0.0.1:7501"}, "at least one running member"),
        ({"join": True, "id": "n4", "peers": PEERS}, "is the address of n1"),
        ({"log_keep_entries": "999"}, "from 1000 to 10000000"),
        ({"log_keep_entries": "all"}, "whole number"),
        ({"log_keep_entries": True}, "whole number"),
        ({"leader_wait": "99ms"}, "from 100ms to 10s"),
        ({"election_timeout": "900ms"}, "from 1s to 5s"),
        ({"election_timeout": "6s"}, "from 1s to 5s"),
        ({"grace": "61m"}, "grace must be from 0s to 1h"),
        ({"grace": True}, "grace"),
        ({"leader_wait": "soon"}, "is not a duration"),
        ({"leader_wait": True}, "leader_wait"),
        ({"log_keep_bytes": "64 megs"}, "such as 64MiB"),
        ({"log_keep_bytes": "-1MiB"}, "such as 64MiB"),
        ({"log_keep_bytes": True}, "such as 64MiB"),
        ({"log_keep_bytes": "1023KiB"}, "from 1MiB to 64GiB"),
        ({"log_keep_bytes": "1TB"}, "from 1MiB to 64GiB"),
        ({"python_runs_max": "0"}, "from 1 to 1000000000"),
        ({"python_memory_max": "31MiB"}, "from 32MiB to"),
    ],
)
def test_errors_say_what_would_be_right(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as e:
        build({**BASE, **settings})
    assert message in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("1GiB", 1 << 30), ("2 gb", 2 * 10**9), ("1500000", 1_500_000), (5_000_000, 5_000_000)],
)
def test_how_much_of_the_log_is_kept(text: str | int, size: int) -> None:
    config = build({**BASE, "log_keep_bytes": text, "log_keep_entries": "2000"})
    assert (config.log_keep_bytes, config.log_keep_entries) == (size, 2_000)
    usual, options = build(BASE), RaftOptions()
    assert (usual.log_keep_bytes, usual.log_keep_entries) == (options.keep_bytes, options.keep_entries)


def test_when_elections_begin() -> None:
    assert RaftOptions(**elections(build(BASE).election_timeout_ms)) == RaftOptions()
    for timeout_ms in FLAGS["election_timeout"].bounds:
        options = RaftOptions(**elections(timeout_ms))
        assert options.election_min_ms > FRESH_MS, "an answer of a leader counts for so long"
        assert options.heartbeat_ms == RaftOptions().heartbeat_ms


def test_when_python_processes_are_replaced() -> None:
    config = build({**BASE, "python_runs_max": "1", "python_memory_max": "2GiB"})
    assert (config.runs.options.python_runs_max, config.runs.options.python_memory_max) == (1, 2 << 30)
    usual = build(BASE)
    assert (usual.runs.options.python_runs_max, usual.runs.options.python_memory_max) == (10_000, 512 << 20)


def test_a_bad_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    for text, message in [
        ("id = ", "is not TOML"),
        ('ip = "n1"', "'ip' is not a setting; known are id, data"),
    ]:
        file.write_text(text)
        with pytest.raises(ConfigError, match=message) as e:
            load({}, {}, file)
        assert "\n" not in str(e.value)
    with pytest.raises(ConfigError, match="cannot read"):
        load({}, {}, tmp_path / "none.toml")


BEYOND = [
    {"http": "0.0.0.0:7401", "advertise_http": "127.0.0.1:7401"},
    {"http": "[::]:7401", "advertise_http": "127.0.0.1:7401"},
    {"http": "10.0.0.1:7401"},
    {"http": "[::ffff:10.0.0.1]:7401"},
    {"http": "n1.internal:7401"},
    {"http": "127.0.0.1:7401", "advertise_http": "n1.internal:443"},
]


@pytest.mark.parametrize("where", BEYOND, ids=lambda where: " as ".join(where.values()))
def test_beyond_loopback_http_is_sealed_or_said_to_be_plain(where: dict[str, str]) -> None:
    with pytest.raises(Unprotected) as e:
        build({**BASE, **where})
    assert "--tls-cert" in str(e.value)
    assert "--insecure-http" in str(e.value)
    assert e.value.exit == 2
    assert build({**BASE, **where, "insecure_http": True}).guarded
    assert not build({**BASE, **where, "insecure_http": True, "open": True}).guarded
    with pytest.raises(Unprotected):
        build({**BASE, **where, "open": True})  # says nothing about what is in clear


@pytest.mark.parametrize("http", ["127.0.0.1:7401", "127.9.9.9:1", "[::1]:7401", "localhost:7401"])
def test_loopback_needs_nothing(http: str) -> None:
    config = build({**BASE, "http": http})
    assert (config.http_beyond, config.guarded) == (False, False)


def test_files_of_the_certificate_are_looked_at_first(tmp_path: Path) -> None:
    cert, key, ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    for file in (cert, key, ca):
        file.touch(mode=0o600)
    tls = {"tls_cert": str(cert), "tls_key": str(key)}
    config = build({**BASE, "http": "10.0.0.1:7401", **tls, "tls_client_ca": str(ca)})
    assert (config.tls_cert, config.tls_key, config.tls_client_ca, config.guarded) == (cert, key, ca, True)
    for wrong, message in [
        ({"tls_cert": str(cert)}, "tls_cert needs tls_key"),
        ({"tls_key": str(key)}, "tls_key needs tls_cert"),
        ({"tls_client_ca": str(ca)}, "tls_client_ca is about TLS"),
        ({**tls, "tls_key": str(tmp_path / "none")}, "cannot be read: no such file"),
        ({**tls, "tls_cert": str(tmp_path)}, "cannot be read: is a directory"),
        ({**tls, "insecure_http": True}, "exclude each other"),
    ]:
        with pytest.raises(ConfigError, match=message):
            build({**BASE, **wrong})
    key.chmod(0o604)
    with pytest.raises(ConfigError, match="by every user"):
        build({**BASE, **tls})


def test_addresses() -> None:
    assert parse_address("x", "[::1]:80") == Address("::1", 80)
    assert str(Address("::1", 80)) == "[::1]:80"
    assert Address("::1", 80).loopback
    assert Address("127.9.9.9", 80).loopback
    assert Address("localhost", 80).loopback
    assert not Address("example.com", 80).loopback
    assert Address("::", 80).wildcard
    assert parse_peers("") == {}
    assert parse_labels("") == ()


def test_names_behind_a_proxy_are_a_list(tmp_path: Path) -> None:
    assert build({**BASE, "http_hosts": "Jobs.example, jobs2.example,jobs.example"}).http_hosts == (
        "jobs.example",
        "jobs2.example",
    )
    assert build({**BASE, "http_hosts": ["a.example"]}).http_hosts == ("a.example",)
    for wrong in ("https://jobs.example", "a:80", "*"):
        with pytest.raises(ConfigError, match="is not a host name"):
            build({**BASE, "http_hosts": wrong})
    with pytest.raises(ConfigError, match="must be text or a list"):
        build({**BASE, "http_hosts": 7})


def test_a_node_that_speaks_tls_says_so_to_the_others(tmp_path: Path) -> None:
    files = {}
    for name in ("tls_cert", "tls_key", "tls_ca"):
        files[name] = tmp_path / name
        files[name].write_text("x")
        files[name].chmod(0o600)
    config = build({**BASE, "http": "10.0.0.1:7401", **files})
    assert config.announced_http == "https://10.0.0.1:7401"
    assert config.tls_ca == files["tls_ca"]
    assert build(BASE).announced_http == "127.0.0.1:7401"
    with pytest.raises(ConfigError, match=r"tls_ca .* cannot be read"):
        build({**BASE, "tls_ca": tmp_path / "none"})


def test_what_jobs_may_touch() -> None:
    plain = build(BASE)
    assert (plain.executors, plain.allowed) == (("exec", "shell", "python", "http", "call"), Allowed())
    said = build({**BASE, "exec_allow": ["/opt/jobs/*"], "http_allow": "10.0.0.0/8, *.corp.example:443"})
    assert said.executors == ("exec", "python", "http", "call")
    assert said.allowed == Allowed(exec=("/opt/jobs/*",), http=("10.0.0.0/8", "*.corp.example:443"))
    assert build({**BASE, "executors": "http,exec"}).executors == ("exec", "http")
    assert build({**BASE, "exec_allow": []}).allowed.exec == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"executors": "exec,docker"}, "name some of exec, shell, python, http, call"),
        ({"executors": "exec,shell", "exec_allow": ["/opt/*"]}, "leave shell out"),
        ({"exec_allow": ["backup"]}, "absolute path"),
        ({"env_allow": ["PATH"]}, "env_allow 'PATH' cannot be"),
        ({"http_deny": "10.0.0.0/40"}, "write a network such as"),
        ({"http_allow": [f"10.0.{n}.0/24" for n in range(101)]}, "100 of 256 characters"),
    ],
)
def test_errors_about_what_jobs_may_touch(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build({**BASE, **settings})
