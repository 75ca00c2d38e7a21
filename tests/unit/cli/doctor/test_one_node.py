"""`raftsched doctor --local` and `--config`: what is to be seen of one node on its machine, up or down."""

from __future__ import annotations

import json
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from raftsched.cli.doctor import configured, directory, log_lines
from raftsched.cli.doctor import machine as doctor_machine
from raftsched.doctor import CHECKS, Finding
from raftsched.errors import StartupError
from raftsched.security import certificates
from raftsched.security.keyring import KEY_FILE, own_key
from raftsched.security.private import make_private
from raftsched.store import Store, examination
from raftsched.system import machine
from raftsched.system.clock import SystemClock
from tests.support.ports import free_ports
from tests.support.stub_server import serve
from tests.unit.cli.house import run

MACHINE = {"open-files", "time-zones", "control-groups"}
DIRECTORY = {"data", "in-use", "file-system", "room", "address-space", "flush"}


@pytest.fixture(autouse=True)
def no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "_journal", lambda: None)
    monkeypatch.setattr(machine, "clock_synchronised", lambda: None)


def states(result: Result) -> dict[str, tuple[str, str, str | None]]:
    return {i["check"]: (i["state"], i["detail"], i["do"]) for i in json.loads(result.stdout)["items"]}


def look(*words: object) -> dict[str, tuple[str, str, str | None]]:
    return states(run("doctor", *map(str, words), "-o", "json"))


def test_it_asks_nobody_and_makes_nothing(tmp_path: Path) -> None:
    with serve(lambda request: (500, {})) as stub:
        result = run("--server", stub.url, "doctor", "--local", str(tmp_path / "new" / "n1"), "-o", "json")
        assert not stub.requests
    found = states(result)
    assert set(found) == {*MACHINE, *DIRECTORY}
    assert found["data"][1] == f"{tmp_path / 'new' / 'n1'} will be made"
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------- the directory


def test_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(path: Path) -> dict[str, tuple[str, str]]:
        return {f.check: (f.state, f.do) for f in directory.look_at_directory(path)}

    (tmp_path / "file").write_text("")
    assert look(tmp_path / "file")["data"][0] == "fail"
    tmp_path.chmod(0o755)
    assert look(tmp_path)["data"][0] == "warn"
    tmp_path.chmod(0o700)
    assert look(tmp_path)["data"][0] == "ok"
    for kind, state in (("tmpfs", "fail"), ("nfs4", "fail"), ("overlay", "warn"), ("ext4", "ok"), ("btrfs", "ok")):
        monkeypatch.setattr(machine, "file_system", lambda place, kind=kind: kind)
        assert look(tmp_path)["file-system"][0] == state
    monkeypatch.setattr(directory, "FLUSH_WARN_MS", -1.0)
    assert look(tmp_path)["flush"][0] == "warn"
    monkeypatch.setattr(directory, "FLUSH_FAIL_MS", -1.0)
    assert look(tmp_path)["flush"][0] == "fail"
    monkeypatch.setattr(directory, "DISK_WARN", 1 << 60)
    assert look(tmp_path)["room"][0] == "warn"
    monkeypatch.setattr(directory, "DISK_FAIL", 1 << 60)
    assert look(tmp_path)["room"][0] == "fail"


def test_a_directory_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory.os, "access", lambda *_: False)
    (found,) = directory.look_at_directory(tmp_path)
    assert (found.check, found.state, "as the node's user, or as root" in found.do) == ("data", "fail", True)


def test_the_key_of_a_data_directory(tmp_path: Path) -> None:
    def found() -> list[tuple[str, str]]:
        return [(f.state, f.detail + f.do) for f in directory.look_at_directory(tmp_path) if "key" in f.check]

    assert found() == []
    ring = own_key(tmp_path)
    ((state, says),) = found()
    assert (state, says.startswith(f"{ring.ids()[0]} is used")) == ("ok", True)
    (tmp_path / KEY_FILE).chmod(0o644)
    ((state, says),) = found()
    assert (state, "chmod 600" in says) == ("fail", True)


def test_a_data_directory_that_others_may_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir(mode=0o700)
    (tmp_path / "mine").touch(mode=0o644)
    tmp_path.chmod(0o700)
    assert directory._kept_private(tmp_path).state == "ok"
    (tmp_path / "store").chmod(0o750)
    found = directory._kept_private(tmp_path)
    assert (found.state, "store" in found.detail, "chmod -R go=" in found.do) == ("warn", True, True)


def test_whose_it_is(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lock").touch()
    (found,) = directory._owner(tmp_path)
    assert found.state == ("warn" if os.getuid() == 0 else "ok")
    if os.getuid() == 0:
        os.chown(tmp_path / "store" / "lock", 12_345, 12_345)
        (found,) = directory._owner(tmp_path)
        assert (found.state, "store/lock belongs to another user" in found.detail) == ("fail", True)
        assert "chown -R 0" in found.do


def test_a_part_that_belongs_to_root_and_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "output").mkdir()
    real = Path.iterdir

    def closed(self: Path) -> Iterator[Path]:
        if self.name == "store":
            raise PermissionError(13, "Permission denied", str(self))
        return real(self)

    monkeypatch.setattr(Path, "iterdir", closed)
    (found,) = directory._owner(tmp_path)
    assert (found.check, found.state) == ("user", "warn")
    assert found.detail == f"{tmp_path / 'store'} cannot be looked into: permission denied"
    if os.getuid() == 0:
        os.chown(tmp_path / "store", 12_345, 12_345)
        (found,) = directory._owner(tmp_path)
        assert (found.state, "store belongs to another user" in found.detail) == ("fail", True)


def test_what_can_be_no_data_directory(tmp_path: Path) -> None:
    def first(data: Path) -> tuple[str, str, str]:
        found = next(iter(directory.look_at_directory(data)))
        return found.check, found.state, found.detail

    (tmp_path / "link").symlink_to(tmp_path / "gone")
    says = f"{tmp_path / 'link'} is a link to {tmp_path / 'gone'}, which is not there"
    assert first(tmp_path / "link") == first(tmp_path / "link" / "n1") == ("data", "fail", says)
    (tmp_path / "file").touch()
    says = f"{tmp_path / 'file'} is not a directory"
    assert first(tmp_path / "file") == first(tmp_path / "file" / "n1") == ("data", "fail", says)
    assert "cannot be used" in first(Path("/a\0b"))[2]
    assert "file name too long" in first(tmp_path / ("x" * 300))[2]
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    assert first(tmp_path / "shared")[1] == "fail"
    with pytest.raises(StartupError, match="one that users share"):
        make_private(tmp_path / "shared")


def test_a_file_system_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def read_only(place: Path) -> Any:
        class Found:
            f_flag = os.ST_RDONLY

            def __getattr__(self, name: str) -> Any:
                return getattr(real(place), name)

        return Found()

    monkeypatch.setattr(directory.os, "statvfs", read_only)
    found = {f.check: f for f in directory.look_at_directory(tmp_path)}
    assert (found["data"].state, "is mounted read-only" in found["data"].detail) == ("fail", True)
    assert "root" not in found["data"].do
    assert {"user", "in-use", "room"} <= found.keys(), "what can be looked at is"


def test_a_check_that_raises_takes_no_other_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("what nobody thought of")

    before = look("--local", tmp_path)
    for place, name in ((directory, "_room"), (directory, "_owner"), (doctor_machine, "_zones")):
        monkeypatch.setattr(place, name, broken)
    found = look("--local", tmp_path)
    assert set(found) == set(before)
    for check in ("room", "user", "time-zones"):
        assert found[check][:2] == ("warn", "could not be looked at: RuntimeError: what nobody thought of")


def test_the_store(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store", sync=False)
    found = look("--local", tmp_path)
    assert found["in-use"][0] == "ok"
    assert "log and tables are left alone" in found["in-use"][1]
    assert "store" not in found
    store.close()
    found = look("--local", tmp_path)
    assert found["in-use"][:2] == ("ok", "no node runs on it")
    assert found["store"][:2] == ("ok", "0 entries up to 0, each with its checksum; term 0, checkpoint of entry 0")
    (tmp_path / "store" / "tables-1" / "checkpoint").write_bytes(b"")
    result = run("doctor", "--local", str(tmp_path))
    assert result.exit_code == 1
    assert "damaged: tables-1 has no checkpoint" in result.output
    assert "raftsched cluster members replace" in result.output


# ---------------------------------------------------------------- the machine


@pytest.mark.parametrize("limit, state", [(256, "fail"), (1024, "warn"), (8192, "ok"), (resource.RLIM_INFINITY, "ok")])
def test_open_files(limit: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert doctor_machine._files().state == state


def test_open_files_are_those_that_a_node_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    for limits, level in (((256, 1 << 20), "ok"), ((256, 4_096), "warn"), ((256, 512), "fail"), ((9_000, -1), "ok")):
        monkeypatch.setattr(doctor_machine.resource, "getrlimit", lambda _, limits=limits: limits)
        assert doctor_machine._files().state == level, limits


def test_a_clock_that_nobody_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    for kept, found in ((None, []), (True, ["ok"]), (False, ["warn"])):
        monkeypatch.setattr(machine, "clock_synchronised", lambda kept=kept: kept)
        assert [f.state for f in doctor_machine.look_at_machine() if f.check == "clock-service"] == found


# ---------------------------------------------------------------- what the settings name


class Node:
    """The settings of a node in a file, to be made worse."""

    def __init__(self, place: Path) -> None:
        http, raft = free_ports(2)
        self.file = place / "node.toml"
        self.lines = {
            "id": '"n1"',
            "data": f'"{place}/data"',
            "http": f'"127.0.0.1:{http}"',
            "raft": f'"127.0.0.1:{raft}"',
        }
        self.ports = http, raft

    def look(self) -> dict[str, tuple[str, str, str | None]]:
        self.file.write_text("".join(f"{name} = {value}\n" for name, value in self.lines.items()))
        return look("--config", self.file)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_settings_that_are_right(node: Node) -> None:
    found = node.look()
    assert found["settings"][0] == found["ports"][0] == found["addresses"][0] == "ok"
    assert set(found) == {*MACHINE, *DIRECTORY, "settings", "ports", "addresses"}


def test_settings_that_are_wrong_and_a_file_that_is_none(node: Node, tmp_path: Path) -> None:
    node.lines["slots"] = "-1"
    found = node.look()
    assert found["settings"][0] == "fail"
    assert "slots" in found["settings"][1]
    assert set(found) == {*MACHINE, "settings"}, "where the data is nobody knows"
    assert "cannot read" in look("--config", tmp_path / "none")["settings"][1]


def _raise(error: Exception) -> Any:
    raise error


def test_ports_that_somebody_has(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", node.ports[1])):
        found = node.look()
        assert (found["ports"][0], f"raft 127.0.0.1:{node.ports[1]}" in found["ports"][1]) == ("fail", True)
        store = Store.open(tmp_path / "data" / "store", sync=False)  # as a node that runs has it
        assert "ports" not in node.look()
        store.close()
        closed = PermissionError(13, "Permission denied")
        with monkeypatch.context() as other_user:
            other_user.setattr(examination, "held", lambda _: _raise(closed))
            assert node.look()["ports"][0] == "warn", "it may be this node that has it"
    node.lines["http"] = '"192.0.2.1:7401"'
    node.lines["insecure_http"] = "true"
    assert "does not have that address" in node.look()["ports"][1]


def test_names_that_nobody_knows(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
        if host == "n2.invalid":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0))]

    config = configured.read_settings(_written(node), {})
    assert not isinstance(config, Finding)
    peers = {**config.peers, "n2": config.raft._replace(host="n2.invalid")}
    monkeypatch.setattr(configured.socket, "getaddrinfo", look_up)
    found = configured._addresses(configured.NodeConfig(**{**vars(config), "peers": peers}))
    assert (found.state, "n2.invalid (name or service not known)" in found.detail) == ("fail", True)


@pytest.mark.parametrize("host", ["host-..x", "a" * 64 + ".example"])
def test_names_that_can_be_none(node: Node, host: str) -> None:
    node.lines["raft"] = f'"{host}:{node.ports[1]}"'
    node.lines["peers"] = f'{{n1 = "{host}:{node.ports[1]}"}}'
    found = node.look()
    for check in ("ports", "addresses"):
        assert (found[check][0], "1 to 63 characters" in found[check][1]) == ("fail", True)


def test_modules_of_handlers_are_looked_for_and_not_imported(node: Node, tmp_path: Path) -> None:
    shop = tmp_path / "lib" / "shop"
    shop.mkdir(parents=True)
    (shop / "tasks.py").write_text("raise SystemExit")
    node.lines["pythonpath"] = f'["{tmp_path / "lib"}"]'
    node.lines["handlers"] = '["shop.tasks", "json.decoder", "sys"]'
    assert node.look()["settings"][0] == "ok"
    node.lines["handlers"] = '["shop.tasks", "shop.none.at_all", "no_such_module"]'
    node.file.write_text("".join(f"{name} = {value}\n" for name, value in node.lines.items()))
    items = json.loads(run("doctor", "--config", str(node.file), "-o", "json").stdout)["items"]
    assert [i["detail"].partition(" in ")[0] for i in items if i["check"] == "settings"] == [
        "handlers shop.none.at_all: there is no module shop.none",
        "handlers no_such_module: there is no module no_such_module",
    ]


def test_a_place_of_output_that_is_none(node: Node) -> None:
    pytest.importorskip("minio")
    node.lines["output_store"] = '"s3://b/x"'
    found = node.look()["settings"]
    assert (found[0], "output_store: 'b' cannot be the name of a bucket" in found[1]) == ("fail", True)


def _written(node: Node) -> Path:
    node.look()
    return node.file


@pytest.fixture(scope="module")
def authority() -> certificates.Pair:
    return certificates.make_ca("prod", SystemClock().wall_ms())


def shown(
    place: Path, pair: certificates.Pair, hosts: list[str] | None = None, node: str = "", ca: bytes = b""
) -> tuple[str, str]:
    (place / "n.crt").write_bytes(pair.certificate)
    (place / "n.key").write_bytes(pair.key)
    (place / "ca.crt").write_bytes(ca)
    files = place / "n.crt", place / "n.key"
    (found,) = configured._certificate("--x", *files, hosts or [], node, place / "ca.crt" if ca else None)
    assert found.check == "tls-files"
    return found.state, found.detail


def test_certificates(tmp_path: Path, authority: certificates.Pair) -> None:
    now = SystemClock().wall_ms()
    pair = certificates.make_node(authority, "prod", "n1", ["n1.example.com", "10.0.0.1"], now, 90)
    assert shown(tmp_path, pair, ["10.0.0.1"])[0] == "ok"
    assert shown(tmp_path, pair, ["n1.example.com"], "n1", authority.certificate)[0] == "ok"
    state, says = shown(tmp_path, pair, ["n2.example.com"])
    assert (state, "is for n1.example.com, 10.0.0.1, not for n2.example.com" in says) == ("fail", True)
    assert "names n1, not n2" in shown(tmp_path, pair, [], "n2")[1]
    other = certificates.make_ca("prod", now)
    assert "is not signed by an authority" in shown(tmp_path, pair, [], "n1", other.certificate)[1]
    mixed = certificates.Pair(pair.certificate, other.key)
    state, says = shown(tmp_path, mixed)
    assert (state, "cannot be used" in says) == ("fail", True)
    assert "cannot be used" in shown(tmp_path, certificates.Pair(b"none", b"none"))[1]
    soon = certificates.make_node(authority, "prod", "n1", [], now, 3)
    assert shown(tmp_path, soon) == ("warn", f"--x {tmp_path / 'n.crt'} expires in 3.0 days")
    past = certificates.make_node(authority, "prod", "n1", [], now - 10 * 86_400_000, 3)
    assert shown(tmp_path, past)[0] == "fail"


@pytest.mark.parametrize("ca", [b"", b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_files_of_authorities_that_hold_none(ca: bytes, tmp_path: Path, authority: certificates.Pair) -> None:
    pair = certificates.make_node(authority, "prod", "n1", [], SystemClock().wall_ms(), 90)
    (tmp_path / "ca.crt").write_bytes(ca)
    for name, raw in (("n.crt", pair.certificate), ("n.key", pair.key)):
        (tmp_path / name).write_bytes(raw)
    files = tmp_path / "n.crt", tmp_path / "n.key"
    of_raft = list(configured._certificate("--raft-cert", *files, (), "n1", tmp_path / "ca.crt"))
    of_clients = list(configured._authorities("--tls-client-ca", tmp_path / "ca.crt"))
    for (found,) in (of_raft, of_clients):
        assert (found.check, found.state) == ("tls-files", "fail")
        assert "holds no certificate of an authority in PEM" in found.detail
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    assert list(configured._authorities("--tls-client-ca", tmp_path / "ca.crt")) == []
    (missing,) = configured._authorities("--tls-client-ca", tmp_path / "none")
    assert "no such file" in missing.detail


def test_hosts_of_certificates() -> None:
    assert certificates.is_for(["*.example.com"], "N1.example.com")
    assert not certificates.is_for(["*.example.com"], "a.n1.example.com")
    assert not certificates.is_for(["*.example.com"], "example.com")
    assert certificates.is_for(["::1"], "[::1]")


@pytest.fixture(autouse=True)
def known_checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each finding is of a check that is listed."""
    real, unknown = Finding.__post_init__, list[str]()

    def checked(self: Finding) -> None:
        unknown.extend({self.check} - CHECKS.keys())
        real(self)

    monkeypatch.setattr(Finding, "__post_init__", checked)
    yield
    assert not unknown
