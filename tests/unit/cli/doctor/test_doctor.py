"""`doctor`: each trouble is found, named, and says what to do; a healthy cluster gets no advice."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from raftsched.cli.doctor import local as doctor_local
from raftsched.doctor import DAYS_LEFT, DISK_WARN, LAG
from raftsched.security.keyring import KEY_FILE, own_key
from tests.support.stub_server import Request, Stub, problem, serve
from tests.unit.cli.house import run

NAMES = ("n1", "n2", "n3")


def node(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "role": "follower", "voter": True, "alive": True, "http": "", "lag": 0, "clock_offset_ms": 1.0,
            "running": 1, "slots": 4, "version": "1", "session_open": True, "drained": False, **fields}  # fmt: skip


class Cluster:
    """The answers of a healthy one, to be made worse."""

    def __init__(self) -> None:
        self.nodes = [node(name) for name in NAMES]
        self.seen: dict[str, Any] = {"leader": "n1", "term": 3, "waits_for": None, "waiting": [], "paused": False}
        self.metrics = {
            "raftsched_disk_free_bytes": 5e12,
            "raftsched_store_bytes": 1e6,
            "raftsched_dead_letters": 0,
            "raftsched_instances_unplaceable": 0,
        }
        self.waiting = 3
        self.queues: list[dict[str, Any]] = [{"name": "mails", "paused": False}]
        self.required = False
        self.url = ""

    def __call__(self, request: Request) -> tuple[int, Any]:
        path = request.path.partition("?")[0]
        address = self.url.removeprefix("http://")
        if path == "/v1/cluster":
            return 200, {**self.seen, "nodes": [{**n, "http": n["http"] or address} for n in self.nodes]}
        if path == "/v1/cluster/access":
            return 200, {"required": self.required}
        if path == "/v1/cluster/settings":
            return 200, {"clock_limit": "500ms"}
        if path == "/metrics":
            lines = [f"{name} {value:e}" for name, value in self.metrics.items()]
            return 200, "\n".join(["# HELP x", 'other{le="0.5"} 1.0', *lines, ""]).encode()
        if path == "/v1/instances":
            return 200, {"items": [{}] * self.waiting, "next": None}
        if path == "/v1/queues":
            return 200, {"items": self.queues, "next": None}
        return problem(404, "not-found", path)


def examine(change: Callable[[Cluster], None], *words: str) -> Result:
    cluster = Cluster()
    change(cluster)
    with serve(cluster) as stub:
        cluster.url = stub.url
        return run("--server", stub.url, "doctor", *words)


def states(result: Result) -> dict[str, tuple[str, str, str | None]]:
    return {i["check"]: (i["state"], i["detail"], i["do"]) for i in json.loads(result.stdout)["items"]}


MACHINE = {"open files", "time zones", "control groups"}


def test_a_healthy_cluster_is_told_so() -> None:
    result = examine(lambda c: None, "-o", "json")
    assert result.exit_code == 0
    found = {k: v for k, v in states(result).items() if k not in MACHINE}
    assert {v[0] for v in found.values()} == {"ok"}
    assert {v[2] for v in found.values()} == {None}
    assert found["quorum"][1] == "3 of 3 voting members are connected, 2 are needed; 1 more may be lost"
    assert len(found) == 16


@pytest.mark.parametrize(
    "change, check, state, says, do",
    [
        (lambda c: c.nodes[1].update(http="127.0.0.1:1"), "reachable", "warn", "n2 (127.0.0.1:1)", "log"),
        (lambda c: c.seen.update(leader=None, waits_for="n1 waits"), "leader", "fail", "n1 waits", "majority"),
        (lambda c: [n.update(alive=False) for n in c.nodes[1:]], "quorum", "fail", "1 of 3", "start n2, n3"),
        (lambda c: c.nodes[2].update(alive=False), "quorum", "warn", "no other may be lost", "bring n3 back"),
        (lambda c: c.nodes.pop(), "quorum", "warn", "2 of 2", "three members"),
        (lambda c: c.nodes.append(node("n4")), "quorum", "warn", "4 of 4", "even number"),
        (lambda c: c.seen.update(waiting=[{"id": "n9"}]), "members", "warn", "n9 ask", "cluster members"),
        (
            lambda c: c.seen.update(waiting=[{"id": "n3", "why": "disk-went-back"}]),
            "members",
            "fail",
            "disk of n3 went back",
            "members replace n3",
        ),
        (lambda c: c.nodes[2].update(voter=False), "members", "warn", "n3 catch up", "wait"),
        (lambda c: c.nodes[2].update(version="2"), "versions", "warn", "n1, n2: 1; n3: 2", "newest"),
        (lambda c: c.nodes[2].update(lag=LAG + 1), "lag", "warn", "n3 by 1,001", "slow"),
        (lambda c: c.nodes[2].update(clock_offset_ms=-300.0), "clocks", "warn", "n3 is off by -300 ms", "chrony"),
        (lambda c: c.nodes[2].update(clock_offset_ms=900.0), "clocks", "fail", "clock_limit", "chrony"),
        (lambda c: [n.update(clock_offset_ms=None) for n in c.nodes], "clocks", "warn", "not measured", "leader"),
        (lambda c: c.metrics.update(raftsched_disk_free_bytes=DISK_WARN // 2), "disk", "warn", "free", "make room"),
        (lambda c: c.metrics.update(raftsched_disk_free_bytes=1e6), "disk", "fail", "free", "refuses writes"),
        (lambda c: c.metrics.update({DAYS_LEFT: 13.5}), "certificates", "warn", "13.5 days", "put a new certificate"),
        (lambda c: c.metrics.update({DAYS_LEFT: -1.0}), "certificates", "fail", "has expired", "put a new certificate"),
        (lambda c: c.seen.update(paused=True), "paused", "warn", "paused", "cluster resume"),
        (lambda c: c.nodes[1].update(drained=True), "workers", "warn", "drained: n2", "nodes undrain n2"),
        (lambda c: c.nodes[1].update(session_open=False), "workers", "warn", "no session", "restart"),
        (lambda c: c.nodes[1].update(trouble="no process"), "workers", "warn", "n2: no process", "ulimit"),
        (lambda c: c.metrics.update(raftsched_instances_unplaceable=2), "placement", "warn", "2 runs", "WAITING"),
        (lambda c: setattr(c, "waiting", 500), "backlog", "warn", "500 instances", "slots"),
        (lambda c: c.queues[0].update(paused=True), "queues", "warn", "mails", "queues resume mails"),
        (lambda c: c.metrics.update(raftsched_dead_letters=4), "dead letters", "warn", "4", "dlq list"),
    ],
)
def test_what_is_wrong(change: Callable[[Cluster], None], check: str, state: str, says: str, do: str) -> None:
    result = examine(change, "-o", "json")
    found = states(result)[check]
    assert found[0] == state
    assert says in found[1]
    assert do in (found[2] or "")
    assert result.exit_code == (1 if state == "fail" else 0)
    table = examine(change)
    assert f"{check}: " in table.output.partition("\n\n")[2]
    assert check in examine(change, "-o", "name").output.splitlines()


def test_no_node_at_all_and_one_that_lost_its_leader_meanwhile() -> None:
    result = run("--server", "http://127.0.0.1:1", "doctor", "-o", "json")
    assert (result.exit_code, states(result)["reachable"][0]) == (1, "fail")
    assert set(states(result)) > MACHINE
    with serve(lambda r: problem(401, "unauthorized", "Who is it?")) as stub:
        found = states(run("--server", stub.url, "doctor", "-o", "json"))
        assert found["access"][:2] == ("fail", "Who is it?")
        assert "--token" in (found["access"][2] or "")
    cluster = Cluster()

    def answer(request: Request) -> tuple[int, Any]:
        return problem(503, "no-leader", "None now.") if "settings" in request.path else cluster(request)

    with serve(answer) as stub:
        cluster.url = stub.url
        assert states(run("--server", stub.url, "doctor", "-o", "json"))["answers"][:2] == ("warn", "None now.")


def test_offline_asks_nobody(tmp_path: Path) -> None:
    with serve(Cluster()) as stub:
        result = run("--server", stub.url, "doctor", "--offline", "--data", str(tmp_path / "new" / "n1"), "-o", "json")
        assert_nothing(stub)
    found = states(result)
    assert set(found) == {*MACHINE, "data", "file system", "room", "address space", "flush"}
    assert found["data"][1] == f"{tmp_path / 'new' / 'n1'} will be made"
    assert not list(tmp_path.iterdir())


def assert_nothing(stub: Stub) -> None:
    assert not stub.requests


def test_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(path: Path) -> dict[str, tuple[str, str]]:
        return {f.check: (f.state, f.do) for f in doctor_local.look_at_directory(path)}

    (tmp_path / "file").write_text("")
    assert look(tmp_path / "file")["data"][0] == "fail"
    tmp_path.chmod(0o755)
    assert look(tmp_path)["data"][0] == "warn"
    tmp_path.chmod(0o700)
    assert look(tmp_path)["data"][0] == "ok"
    for kind, state in (("tmpfs", "fail"), ("nfs4", "fail"), ("overlay", "warn"), ("ext4", "ok"), ("btrfs", "ok")):
        monkeypatch.setattr(doctor_local, "_kind", lambda place, kind=kind: kind)
        assert look(tmp_path)["file system"][0] == state
    monkeypatch.setattr(doctor_local, "FLUSH_WARN_MS", -1.0)
    assert look(tmp_path)["flush"][0] == "warn"
    monkeypatch.setattr(doctor_local, "FLUSH_FAIL_MS", -1.0)
    assert look(tmp_path)["flush"][0] == "fail"
    monkeypatch.setattr(doctor_local, "DISK_WARN", 1 << 60)
    assert look(tmp_path)["room"][0] == "warn"
    monkeypatch.setattr(doctor_local, "DISK_FAIL", 1 << 60)
    assert look(tmp_path)["room"][0] == "fail"


def test_the_key_of_a_data_directory(tmp_path: Path) -> None:
    def found() -> list[tuple[str, str]]:
        findings = doctor_local.look_at_directory(tmp_path)
        return [(f.state, f.detail + (f.do or "")) for f in findings if "key" in f.check]

    assert found() == []
    ring = own_key(tmp_path)
    assert found() == [("ok", f"{ring.ids()[0]} is used")]
    (tmp_path / KEY_FILE).chmod(0o644)
    ((state, says),) = found()
    assert (state, "chmod 600" in says) == ("fail", True)


def test_the_file_system_is_that_of_the_longest_mount_point(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/a / ext4 rw 0 0\ntmpfs /dev tmpfs rw 0 0\n/dev/b /var/lib/a\\040b xfs rw 0 0\n/dev/c /var ext3 rw 0 0\n"
    )
    for path, kind in {
        "/": "ext4",
        "/dev/x": "tmpfs",
        "/devices": "ext4",
        "/var/lib/a b/c": "xfs",
        "/var": "ext3",
    }.items():
        assert doctor_local._kind(Path(path), mounts) == kind, path
    assert doctor_local._kind(Path("/"), tmp_path / "none") == "unknown"


@pytest.mark.parametrize("limit, state", [(256, "fail"), (1024, "warn"), (8192, "ok"), (resource.RLIM_INFINITY, "ok")])
def test_open_files(limit: int, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert doctor_local._files().state == state


def test_a_data_directory_that_others_may_use(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o700)
    (tmp_path / "mine").touch(mode=0o644)
    tmp_path.chmod(0o700)
    assert doctor_local._kept_private(tmp_path).state == "ok"
    (tmp_path / "store").chmod(0o750)
    found = doctor_local._kept_private(tmp_path)
    assert (found.state, "store" in found.detail, "chmod -R go=" in found.do) == ("warn", True, True)
    owners = [found.check for found in doctor_local._owner(tmp_path)]
    assert owners == (["user"] if tmp_path.stat().st_uid == 0 else [])


def test_who_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    def access(change: Callable[[Cluster], None]) -> tuple[str, str, str | None]:
        return states(examine(change, "-o", "json"))["access"]

    def elsewhere(cluster: Cluster) -> None:
        cluster.nodes[0]["http"] = "10.0.0.1:1"

    def needed(cluster: Cluster) -> None:
        elsewhere(cluster)
        cluster.required = True

    monkeypatch.setattr("raftsched.cli.doctor.cluster.NODE_WAIT_S", 0.05)
    assert access(lambda c: None)[:2] == ("ok", "open, to this machine only")
    assert access(elsewhere)[0] == "warn"
    assert "tokens bootstrap" in (access(elsewhere)[2] or "")
    assert access(needed)[:2] == ("ok", "requests need a token")
    assert states(examine(needed, "-o", "json"))["plain HTTP"][0] == "warn"

    def sealed(cluster: Cluster) -> None:
        for node in cluster.nodes:
            node["http"] = "https://10.0.0.1:1"

    assert states(examine(sealed, "-o", "json"))["plain HTTP"][0] == "ok"
    with serve(lambda r: problem(401, "locked", "This node is locked.")) as stub:
        result = run("--server", stub.url, "doctor", "-o", "json")
    assert "tokens bootstrap --data DIR" in (states(result)["access"][2] or "")
    with serve(lambda r: problem(401, "unauthorized", "This cluster wants a token.")) as stub:
        result = run("--server", stub.url, "doctor", "-o", "json")
    assert result.exit_code == 1
    assert "RAFTSCHED_TOKEN" in (states(result)["access"][2] or "")


def test_open_files_are_those_that_a_node_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    from raftsched.cli.doctor import local as doctor_local

    for limits, level in (((256, 1 << 20), "ok"), ((256, 4_096), "warn"), ((256, 512), "fail"), ((9_000, -1), "ok")):
        monkeypatch.setattr(doctor_local.resource, "getrlimit", lambda _, limits=limits: limits)
        assert doctor_local._files().state == level, limits


def test_metrics_that_are_refused_are_no_silence() -> None:
    class Guarded(Cluster):
        def __call__(self, request: Request) -> tuple[int, Any]:
            if request.path == "/metrics":
                return problem(403, "forbidden", "for all namespaces")
            return super().__call__(request)

    cluster = Guarded()
    with serve(cluster) as stub:
        cluster.url = stub.url
        found = states(run("--server", stub.url, "doctor", "-o", "json"))
    assert found["reachable"][0] == "ok"
    assert found["metrics"][0] == "warn"
