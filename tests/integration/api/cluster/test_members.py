"""Who belongs to the cluster: seen, added, replaced, removed, and leadership handed over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from raftsched.api.ports import Peer
from raftsched.errors import NoLeader, RaftschedError, UnknownOutcome
from raftsched.raft import JoinRequest
from raftsched.raft.membership.configuration import promoted
from tests.support.local_api import Client, LocalCluster, serving

MEMBERS = "/v1/cluster/members"
NEW = JoinRequest("n4", "127.0.0.1:9003", "127.0.0.1:7404", b"4" * 16, 100)
OTHER_DISK = JoinRequest("n3", "127.0.0.1:9002", "127.0.0.1:7403", b"3" * 16, 100)


def three(directory: Path, test: Callable[[Client], Awaitable[None]]) -> None:
    """Asks the leader, n1 of three."""

    async def main() -> None:
        cluster = LocalCluster(directory, ("n1", "n2", "n3"))
        try:
            async with serving(cluster, "n1") as call:
                await test(call)
        finally:
            cluster.close()

    asyncio.run(main())


def test_who_votes_and_who_waits(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        call.cluster.join_requests = [NEW, OTHER_DISK]
        status, page = await call("GET", "/v1/cluster")
        assert status == 200
        assert [(n["id"], n["voter"], n["raft"]) for n in page["nodes"]] == [
            ("n1", True, "127.0.0.1:9000"),
            ("n2", True, "127.0.0.1:9001"),
            ("n3", True, "127.0.0.1:9002"),
        ]
        assert page["waiting"] == [
            {"id": "n3", "raft": "127.0.0.1:9002", "http": "127.0.0.1:7403", "store": "33" * 16, "why": "other-disk"},
            {"id": "n4", "raft": "127.0.0.1:9003", "http": "127.0.0.1:7404", "store": "34" * 16, "why": "new"},
        ]
        status, listed = await call("GET", MEMBERS)
        assert (status, listed) == (200, {"items": page["nodes"], "waiting": page["waiting"], "next": None})
        assert (await call("GET", f"{MEMBERS}?limit=1"))[0] == 400

    three(tmp_path, test)


def test_a_member_that_moved_is_shown_with_both_addresses(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        call.cluster.announced["n3"] = "127.0.0.1:9102"
        _, page = await call("GET", "/v1/cluster")
        assert [(n["id"], n["raft"], n["raft_announced"]) for n in page["nodes"]] == [
            ("n1", "127.0.0.1:9000", None),
            ("n2", "127.0.0.1:9001", None),
            ("n3", "127.0.0.1:9002", "127.0.0.1:9102"),
        ]

    three(tmp_path, test)


def test_the_api_of_a_node_is_where_it_says_itself_while_it_is_connected(tmp_path: Path) -> None:
    """Its session may be of an earlier start: a new one is opened when the lease of that has run out."""

    async def test(call: Client) -> None:
        for node in ("n2", "n3"):
            call.cluster.open_session(node, "127.0.0.1:7401")
        call.cluster.http["n3"] = "127.0.0.1:7499"
        _, page = await call("GET", "/v1/cluster")
        assert [n["http"] for n in page["nodes"]][1:] == ["127.0.0.1:7401", "127.0.0.1:7499"]

    three(tmp_path, test)


def test_what_a_new_leader_has_not_heard_of_is_not_known(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        cluster = call.cluster
        cluster.configure((*cluster.members[:2], msgspec.structs.replace(cluster.members[2], voter=False)))
        call.context.cluster.peers = lambda: [Peer("n2", True, 0), Peer("n3", True, 0)]
        _, page = await call("GET", "/v1/cluster")
        assert [n["lag"] for n in page["nodes"]] == [0, None, cluster.store.applied_index]

    three(tmp_path, test)


def test_a_follower_shows_what_the_leader_sees(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2", "n3"))
        try:
            async with serving(cluster, "n1") as leader, serving(cluster, "n2") as follower:
                cluster.http["n1"] = leader.url.removeprefix("http://")
                leader.context.cluster.members.join_requests = lambda: [NEW]
                _, page = await follower("GET", "/v1/cluster")
                assert [w["id"] for w in page["waiting"]] == ["n4"]
                assert [(n["id"], n["lag"]) for n in page["nodes"]] == [("n1", 0), ("n2", 0), ("n3", 0)]
                cluster.configure(cluster.members[:1] + cluster.members[2:])
                _, page = await follower("GET", "/v1/cluster")
                assert [(n["id"], n["voter"]) for n in page["nodes"]] == [("n1", True), ("n3", True), ("n2", False)]
        finally:
            cluster.close()

    asyncio.run(main())


def test_a_follower_shows_clocks_and_troubles_as_the_leader_knows_them(tmp_path: Path) -> None:
    """Its own clock, too: to itself it is right, whatever it shows."""

    async def main() -> None:
        cluster = LocalCluster(tmp_path, ("n1", "n2", "n3"))
        try:
            async with serving(cluster, "n1") as leader, serving(cluster, "n2") as follower:
                cluster.http["n1"] = leader.url.removeprefix("http://")
                leader.context.cluster.peers = lambda: [Peer("n2", True, 1, 3_600_000.0), Peer("n3", True, 1, 2.0)]
                leader.context.cluster.troubles = lambda: {"n3": "no process"}
                follower.context.cluster.troubles = lambda: {"n2": "it waits"}
                for path, items in (("/v1/cluster", "nodes"), ("/v1/nodes", "items")):
                    _, page = await follower("GET", path)
                    assert [n["trouble"] for n in page[items]] == [None, "it waits", "no process"]
                _, page = await follower("GET", "/v1/cluster")
                assert [n["clock_offset_ms"] for n in page["nodes"]] == [0.0, 3_600_000.0, 2.0]
                cluster.http["n1"] = "127.0.0.1:1"
                _, page = await follower("GET", "/v1/cluster")
                assert [n["clock_offset_ms"] for n in page["nodes"]] == [None, None, None]
                status, ready = await follower("GET", "/readyz")
                assert (status, ready["trouble"]) == (200, "it waits")
        finally:
            cluster.close()

    asyncio.run(main())


def test_a_node_that_knocks_is_added_and_votes_by_itself(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        cluster = call.cluster
        status, problem = await call("POST", MEMBERS, {"id": "n4"})
        assert (status, problem["code"]) == (409, "not-waiting")
        cluster.join_requests = [NEW]
        status, member = await call("POST", MEMBERS, {"id": "n4"})
        assert (status, member["id"], member["voter"], member["raft"]) == (202, "n4", False, "127.0.0.1:9003")
        assert cluster.changes[-1] == ("add", "n4", None)
        cluster.configure(promoted(cluster.members, "n4"))
        _, page = await call("GET", "/v1/cluster")
        assert [n["voter"] for n in page["nodes"]] == [True] * 4

    three(tmp_path, test)


def test_a_disk_is_replaced_and_can_be_pinned(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        cluster = call.cluster
        cluster.join_requests = [OTHER_DISK]
        status, member = await call("POST", MEMBERS, {"id": "n3", "replace": True, "store": "33" * 16})
        assert (status, member["id"], member["voter"]) == (202, "n3", False)
        assert cluster.changes == [("replace", "n3", b"3" * 16)]

    three(tmp_path, test)


def test_a_member_is_removed(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        assert await call("DELETE", f"{MEMBERS}/n3") == (204, "")
        _, page = await call("GET", "/v1/cluster")
        assert [n["id"] for n in page["nodes"]] == ["n1", "n2"]
        for name in ("n3", "n33", "N%2F1"):
            status, problem = await call("DELETE", f"{MEMBERS}/{name}")
            assert (status, problem["code"]) == (404, "no-such-member")
            assert "n1, n2" in problem["detail"]
        await call("DELETE", f"{MEMBERS}/n2")
        status, problem = await call("DELETE", f"{MEMBERS}/n1")
        assert (status, problem["code"]) == (409, "last-member")

    three(tmp_path, test)


def test_leadership_is_handed_over(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        assert await call("POST", "/v1/cluster/leader", {"to": "n3"}) == (200, {"leader": "n3", "term": 1})
        assert await call("POST", "/v1/cluster/leader", {}) == (200, {"leader": "n1", "term": 1})
        assert await call("POST", "/v1/cluster/leader") == (200, {"leader": "n2", "term": 1})

    three(tmp_path, test)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", MEMBERS, {}, 422, "/id"),
        ("POST", MEMBERS, {"id": "N4"}, 422, "/id"),
        ("POST", MEMBERS, {"id": 4}, 422, "/id"),
        ("POST", MEMBERS, {"id": "n" * 65}, 422, "/id"),
        ("POST", MEMBERS, {"id": "n4", "store": "xyz"}, 422, "/store"),
        ("POST", MEMBERS, {"id": "n4", "replaces": True}, 422, "replace"),
        ("POST", MEMBERS, {"id": "n4", "replace": "yes"}, 422, "/replace"),
        ("POST", MEMBERS, b"n4", 400, "JSON"),
        ("POST", MEMBERS, [], 422, "object"),
        ("POST", f"{MEMBERS}?wait=true", {"id": "n4"}, 400, "wait"),
        ("DELETE", f"{MEMBERS}/n3?force=true", None, 400, "force"),
        ("POST", "/v1/cluster/leader", {"to": "N 2"}, 422, "/to"),
        ("POST", "/v1/cluster/leader", {"leader": "n2"}, 422, "leader"),
        ("PUT", MEMBERS, {"id": "n4"}, 405, "POST"),
        ("GET", "/v1/cluster/leader", None, 405, "POST"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_changed(
    tmp_path: Path, method: str, path: str, body: object, status: int, says: str
) -> None:
    async def test(call: Client) -> None:
        call.cluster.join_requests = [NEW]
        answered, problem = await call(method, path, body)
        assert answered == status, problem
        assert says in problem["detail"]
        assert call.cluster.changes == []
        assert call.cluster.leader == "n1"

    three(tmp_path, test)


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (NoLeader(), 503),
        (UnknownOutcome(), 504),
        (RaftschedError("membership-busy", "n4 is still catching up; wait for it, or remove it."), 409),
        (RaftschedError("not-possible", "No other voting member is connected."), 409),
    ],
)
def test_what_cannot_be_done_now(tmp_path: Path, failure: RaftschedError, status: int) -> None:
    async def test(call: Client) -> None:
        call.cluster.failure = failure
        for method, path, body in (
            ("POST", MEMBERS, {"id": "n4"}),
            ("DELETE", f"{MEMBERS}/n2", None),
            ("POST", "/v1/cluster/leader", {}),
        ):
            answered, problem = await call(method, path, body)
            assert (answered, problem["code"], problem["detail"]) == (status, failure.code, failure.detail)

    three(tmp_path, test)


def test_a_node_that_waits_says_what_for(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        status, body = await call("GET", "/readyz")
        assert (status, body["ready"]) == (200, True)
        assert "waits_for" not in body
        call.cluster.leader = None
        call.cluster.waits_for = "n4 is no member of the cluster yet: admit it."
        status, body = await call("GET", "/readyz")
        assert (status, body["waits_for"]) == (503, "n4 is no member of the cluster yet: admit it.")
        _, page = await call("GET", "/v1/cluster")
        assert page["waits_for"] == "n4 is no member of the cluster yet: admit it."

    three(tmp_path, test)
