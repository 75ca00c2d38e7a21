"""Nodes as they run jobs: drained, slots and labels said beside what each was started with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.commands import OpenSession, PutNodeRule
from raftsched.core.levels import newest_level
from raftsched.core.subjects.leasing import DiskUse
from raftsched.errors import NoLeader
from tests.support.local_api import Client, LocalCluster, serving

OPENED = "2030-01-01T00:00:00.000Z"


def three(directory: Path, test: Callable[[Client], Awaitable[None]]) -> None:
    """Asks n1 of three, of which n1 and n2 run jobs."""

    async def main() -> None:
        cluster = LocalCluster(directory, ("n1", "n2", "n3"))
        try:
            cluster.open_session("n1", "127.0.0.1:7401")
            labels = (("disk", "ssd"), ("zone", "a"))
            cluster.apply(OpenSession("n2", 0, "boot", b"n", 8, labels, ("exec", "http"), "127.0.0.1:7402", "1"))
            async with serving(cluster, "n1") as call:
                await test(call)
        finally:
            cluster.close()

    asyncio.run(main())


def test_how_a_node_is(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        status, node = await call("GET", "/v1/nodes/n2")
        assert (status, node) == (
            200,
            {"id": "n2", "role": "follower", "voter": True, "alive": True, "http": "127.0.0.1:7402",
             "raft": "127.0.0.1:9001", "version": "1", "drained": False, "running": 0, "slots": 8, "own_slots": 8,
             "labels": {"disk": "ssd", "zone": "a"}, "own_labels": {"disk": "ssd", "zone": "a"},
             "handlers": ["exec", "http"], "limits_whole_runs": False, "users": [],
             "session": {"id": 2, "open": True, "opened_at": OPENED}, "revision": 0, "trouble": None,
             "last_heartbeat_at": None, "allowed": None, "disk": None, "runs": True, "weight": 1},
        )  # fmt: skip
        _, third = await call("GET", "/v1/nodes/n3")
        assert (third["session"], third["slots"], third["own_slots"], third["labels"]) == (None, 0, None, {})
        status, page = await call("GET", "/v1/nodes")
        assert (status, [n["id"] for n in page["items"]], page["next"]) == (200, ["n1", "n2", "n3"], None)
        assert page["items"][1:] == [node, third]

    three(tmp_path, test)


def test_the_leader_says_when_it_heard_of_a_node(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        call.cluster.heartbeat_ages = {"n1": 40, "n2": 1_500}
        _, page = await call("GET", "/v1/nodes")
        heard = ["2029-12-31T23:59:59.960Z", "2029-12-31T23:59:58.500Z", None]
        assert [n["last_heartbeat_at"] for n in page["items"]] == heard
        _, cluster = await call("GET", "/v1/cluster")
        assert [n["last_heartbeat_at"] for n in cluster["nodes"]] == heard

    three(tmp_path, test)


def test_how_full_the_disks_are(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        call.cluster.disks = {"n1": DiskUse(1, 2, 3, 4), "n2": DiskUse(5, 6, 7, 8)}
        wanted = [
            {"free": 1, "total": 2, "store": 3, "output": 4},
            {"free": 5, "total": 6, "store": 7, "output": 8},
            None,
        ]
        for path, field in (("/v1/nodes", "items"), ("/v1/cluster", "nodes"), ("/v1/cluster/members", "items")):
            _, page = await call("GET", path)
            assert [n["disk"] for n in page[field]] == wanted, path

    three(tmp_path, test)


def test_the_level_of_the_cluster_and_of_its_nodes(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        call.cluster.levels = {"n1": newest_level(), "n2": 3}
        _, seen = await call("GET", "/v1/cluster")
        assert [node["level"] for node in seen["nodes"]] == [newest_level(), 3, None]
        assert (seen["level"], seen["level_held"]) == (newest_level(), False)
        assert (await call("PATCH", "/v1/cluster/settings", {"upgrade_hold": 1}))[0] == 200
        assert (await call("GET", "/v1/cluster"))[1]["level_held"] is True

    three(tmp_path, test)


def test_drained_until_it_is_not(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        for action, drained in (("drain", True), ("drain", True), ("undrain", False), ("undrain", False)):
            status, node = await call("POST", f"/v1/nodes/n2/{action}")
            assert (status, node["id"], node["drained"]) == (200, "n2", drained)
            _, page = await call("GET", "/v1/cluster")
            assert [n["drained"] for n in page["nodes"]] == [False, drained, False]
            assert f'raftsched_node_drained{{node="n2"}} {float(drained)}' in (await call("GET", "/metrics"))[1]
        assert (await call("POST", "/v1/nodes/n3/drain", {}))[1]["drained"]  # it need not run
        status, node = await call("PATCH", "/v1/nodes/n3", {"drained": False})
        assert (status, node["drained"]) == (200, False)

    three(tmp_path, test)


def test_labels_and_slots_are_merged_and_given_back(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        path = "/v1/nodes/n2"
        await call("POST", f"{path}/drain")
        own = {"disk": "ssd", "zone": "a"}
        for change, slots, labels in (
            ({"labels": {"gpu": "1"}}, 8, {**own, "gpu": "1"}),
            ({"labels": {"disk": None, "zone": "b", "none": None}}, 8, {"gpu": "1", "zone": "b"}),
            ({"slots": 2}, 2, {"gpu": "1", "zone": "b"}),
            ({"labels": {}}, 2, {"gpu": "1", "zone": "b"}),
            ({"labels": {"gpu": None, "zone": None}}, 2, {}),
            ({"labels": None}, 2, own),
            ({"slots": None}, 8, own),
            ({}, 8, own),
        ):
            status, node = await call("PATCH", path, change)
            assert (status, node["slots"], node["labels"], node["drained"]) == (200, slots, labels, True)
            assert (node["own_slots"], node["own_labels"]) == (8, own)
        _, page = await call("GET", "/v1/cluster")
        assert [n["slots"] for n in page["nodes"]] == [4, 8, 0]
        await call("PATCH", path, {"slots": 3})
        _, page = await call("GET", "/v1/cluster")
        assert [n["slots"] for n in page["nodes"]] == [4, 3, 0]

    three(tmp_path, test)


def test_a_change_keeps_what_was_changed_meanwhile(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        call.cluster.before = lambda: call.cluster.apply(PutNodeRule("n2", slots=5)) and None
        status, node = await call("POST", "/v1/nodes/n2/drain")
        assert (status, node["drained"], node["slots"]) == (200, True, 5)
        call.cluster.before = lambda: call.cluster.apply(PutNodeRule("n2", True, 5, (("x", "y"),))) and None
        status, node = await call("PATCH", "/v1/nodes/n2", {"labels": {"a": "b"}})
        assert (status, node["drained"], node["slots"], node["labels"]) == (200, True, 5, {"a": "b", "x": "y"})

    three(tmp_path, test)


def test_who_is_no_member(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        await call("POST", "/v1/nodes/n3/drain")
        call.cluster.configure(call.cluster.members[:2])
        for name in ("n3", "N1", "n" * 600, "a%00b"):
            for method, path in (("GET", ""), ("PATCH", ""), ("POST", "/drain"), ("POST", "/undrain")):
                status, problem = await call(method, f"/v1/nodes/{name}{path}", {} if method != "GET" else None)
                assert (status, problem["code"]) == (404, "no-such-member"), (method, name)
                assert "n1, n2" in problem["detail"]
        _, page = await call("GET", "/v1/nodes")
        assert [n["id"] for n in page["items"]] == ["n1", "n2"]

    three(tmp_path, test)


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"slots": 0}, "/slots", "drain"),
        ({"slots": 10_001}, "/slots", "10,000"),
        ({"slots": "4"}, "/slots", "integer"),
        ({"labels": ["a=b"]}, "/labels", "an object"),
        ({"labels": {"a": 1}}, "/labels/a", "a string"),
        ({"labels": {"": "x"}}, "/labels/", "1 to 128"),
        ({"labels": {"a": "x" * 257}}, "/labels/a", "256"),
        ({"labels": {str(i): "" for i in range(31)}}, "/labels", "at most 32"),
        ({"drained": "yes"}, "/drained", "true or false"),
        ({"running": 3}, "/running", "leave it out"),
        ({"label": {"a": "b"}}, "/label", 'did you mean "labels"'),
        (5, "", "an object"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_changed(tmp_path: Path, body: Any, pointer: str, says: str) -> None:
    async def test(call: Client) -> None:
        _, before = await call("GET", "/v1/nodes/n2")
        status, problem = await call("PATCH", "/v1/nodes/n2", body)
        assert (status, problem["code"]) == (422, "invalid-body")
        assert [e for e in problem["errors"] if e["pointer"] == pointer and says in e["detail"]], problem
        assert (await call("GET", "/v1/nodes/n2"))[1] == before
        assert call.cluster.proposals == 0

    three(tmp_path, test)


def test_the_edges(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        assert (await call("POST", "/v1/nodes/n2/drain", {"wait": True}))[0] == 422
        assert (await call("POST", "/v1/nodes/n2/drain?wait=true"))[0] == 400
        assert (await call("GET", "/v1/nodes?limit=1"))[0] == 400
        assert (await call("PATCH", "/v1/nodes/n2", b"slots=3", {"Content-Type": "text/plain"}))[0] == 415
        assert (await call("DELETE", "/v1/nodes/n2"))[0] == 405
        call.cluster.failure = NoLeader()
        assert (await call("POST", "/v1/nodes/n2/drain"))[0] == 503
        assert (await call("GET", "/v1/nodes/n2"))[1]["drained"] is False

    three(tmp_path, test)
