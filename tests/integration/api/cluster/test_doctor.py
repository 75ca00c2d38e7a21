"""GET /v1/cluster/doctor: a node looks at the cluster with the checks of `raftsched doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.api.cluster.doctor import FRESH_S, METRICS_BYTES_MAX
from raftsched.api.http.durations import format_time
from raftsched.api.ports import Peer
from raftsched.core.commands import OpenLeadership, OpenWorker, PauseCluster, PutQueue
from raftsched.core.rules.executors import worker_key
from raftsched.doctor import CHECKS
from tests.support.local_api import Client, LocalCluster, serving
from tests.support.tokens import guarded, limited

DOCTOR = "/v1/cluster/doctor"
JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "queue_all"}


def two_of_three(directory: Path, test: Callable[[Client, Client], Awaitable[None]]) -> None:
    """Gives the leader n1 and its follower n2, which know each other's addresses; n3 is silent."""

    async def main() -> None:
        cluster = LocalCluster(directory, ("n1", "n2", "n3"))
        try:
            async with serving(cluster, "n1") as leader, serving(cluster, "n2") as follower:
                cluster.http |= {"n1": leader.url.removeprefix("http://"), "n2": follower.url.removeprefix("http://")}
                for name in ("n1", "n2"):
                    cluster.open_session(name, cluster.http[name])
                await test(leader, follower)
        finally:
            cluster.close()

    asyncio.run(main())


async def found(call: Client) -> dict[str, Any]:
    call.cluster.clock.forward(int(FRESH_S * 1000))  # what the nodes told is asked for again
    status, page = await call("GET", DOCTOR)
    assert status == 200, page
    return {item["check"]: item for item in page["items"]} | {"": page}


def test_the_checks_that_a_node_can_make(tmp_path: Path) -> None:
    async def test(leader: Client, follower: Client) -> None:
        for call in (leader, follower):
            seen = await found(call)
            assert seen[""]["node"] == call.context.node_id
            assert seen["leader"] == {
                "check": "leader",
                "state": "ok",
                "detail": "n1, term 1",
                "do": None,
                "nodes": ["n1"],
                "why": CHECKS["leader"].why,
                "see": CHECKS["leader"].see,
            }
            assert (seen["reachable"]["state"], seen["reachable"]["nodes"]) == ("warn", ["n3"])
            assert f"can {call.context.node_id} reach" in seen["reachable"]["do"]
            assert seen["quorum"]["detail"].startswith("3 of 3")
            assert seen["access"]["state"] == "ok"
            assert {seen[c]["state"] for c in ("lag", "clocks", "paused", "placement", "backlog", "queues")} == {"ok"}
            assert seen[""]["state"] == "warn"

    two_of_three(tmp_path, test)


def test_what_is_wrong_and_where(tmp_path: Path) -> None:
    async def test(leader: Client, follower: Client) -> None:
        cluster = leader.cluster
        cluster.apply(PauseCluster(True), PutQueue("mails", 1, None, 0, True))
        for name in ("a", "b"):
            await leader("POST", "/v1/jobs", JOB | {"name": name})
        for _ in range(60):
            await leader("POST", "/v1/namespaces/default/jobs/a/run", {})
            await leader("POST", "/v1/namespaces/default/jobs/b/run", {})
        leader.context.cluster.peers = lambda: [Peer("n2", True, 1, 900.0, cluster.http["n2"]), Peer("n3", False, 1)]
        leader.context.cluster.troubles = lambda: {"n2": "no process"}
        seen = await found(leader)
        assert (seen[""]["state"], seen["clocks"]["state"], seen["clocks"]["nodes"]) == ("fail", "fail", ["n2"])
        assert (seen["workers"]["detail"], seen["workers"]["nodes"]) == ("starts no runs: n2: no process", ["n2"])
        assert (seen["quorum"]["state"], seen["quorum"]["nodes"]) == ("warn", ["n3"])
        assert (seen["paused"]["state"], seen["paused"]["do"]) == ("warn", "raftsched cluster resume")
        assert (seen["queues"]["detail"], seen["queues"]["do"]) == (
            "paused: mails for 2s",
            "raftsched queues resume mails",
        )
        assert (seen["backlog"]["state"], seen["backlog"]["detail"]) == ("warn", "120 instances wait")
        cluster.leader, cluster.waits_for = None, "n2 and n3 do not answer"
        seen = await found(leader)
        assert (seen["leader"]["state"], seen["leader"]["detail"]) == ("fail", "n2 and n3 do not answer")

    two_of_three(tmp_path, test)


def test_other_nodes_tell_their_metrics_to_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where tokens are required, and not more often than every FRESH_S, whoever asks."""

    async def test(leader: Client, follower: Client) -> None:
        disks = {"n1": 5e12, "n2": 1e6}

        def text(scrapes: object, ctx: Any) -> bytes:
            asked.append(ctx.node_id)
            return f"raftsched_disk_free_bytes {disks[ctx.node_id]:e}\nraftsched_store_bytes 4096.0\n".encode()

        asked: list[str] = []
        monkeypatch.setattr("raftsched.api.cluster.health.Scrapes.text", text)
        viewer = (await guarded(leader))["viewer"]
        pages = await asyncio.gather(*(viewer("GET", DOCTOR) for _ in range(5)))
        for status, page in pages:
            assert status == 200
            disk = {i["nodes"][0]: i["state"] for i in page["items"] if i["check"] == "disk"}
            assert disk == {"n1": "ok", "n2": "fail"}
        assert sorted(asked) == ["n1", "n2"]
        leader.cluster.clock.forward(int(FRESH_S * 1000))
        await viewer("GET", DOCTOR)
        assert sorted(asked) == ["n1", "n1", "n2", "n2"]
        monkeypatch.setattr("raftsched.api.cluster.doctor.METRICS_BYTES_MAX", 10)
        leader.cluster.clock.forward(int(FRESH_S * 1000))
        _, page = await viewer("GET", DOCTOR)
        assert [i["nodes"] for i in page["items"] if i["check"] == "disk"] == [["n1"]]
        assert METRICS_BYTES_MAX > 1 << 20

    two_of_three(tmp_path, test)


def test_it_tells_of_all_namespaces(tmp_path: Path) -> None:
    """So that a token for some of them does not do."""

    async def test(leader: Client, follower: Client) -> None:
        who = await guarded(leader)
        some = await limited(who["admin"], "some", "operator", "billing")
        for caller, status in ((who["nobody"], 401), (some, 403), (who["viewer"], 200)):
            assert (await caller("GET", DOCTOR))[0] == status

    two_of_three(tmp_path, test)


def test_in_a_program(tmp_path: Path) -> None:
    async def test(leader: Client, follower: Client) -> None:
        async with raftsched.AsyncClient(leader.url, discover=False) as client:
            doctor = await client.cluster.doctor()
        assert (doctor.node, doctor.state) == ("n1", "warn")
        assert [f.nodes for f in doctor.items if f.check == "reachable"] == [["n3"]]

    two_of_three(tmp_path, test)


def test_since_when_something_is_stopped_by_hand(tmp_path: Path) -> None:
    async def test(leader: Client, follower: Client) -> None:
        cluster = leader.cluster
        assert (await leader("POST", "/v1/cluster/pause"))[0] == 200
        assert (await leader("PATCH", "/v1/cluster/settings", {"upgrade_hold": 1}))[0] == 200
        cluster.clock.forward(90 * 60_000)
        assert (await leader("PATCH", "/v1/cluster/settings", {"queues_max": 7}))[0] == 200
        assert (await leader("PUT", "/v1/queues/mails", {"paused": True}))[0] == 201
        cluster.clock.forward(30 * 60_000)
        seen = await found(follower)
        assert seen["paused"]["detail"] == "the cluster is paused for 2h, nothing is started"
        assert " for 2h, and nothing is held back" in seen["level"]["detail"]
        assert seen["queues"]["detail"] == "paused: mails for 30m"
        cluster.apply(PauseCluster(False))
        cluster.apply(PauseCluster(True))
        assert (await found(follower))["paused"]["detail"].startswith("the cluster is paused"), "whoever did it"

    two_of_three(tmp_path, test)


def test_tokens_are_counted_and_not_named(tmp_path: Path) -> None:
    async def test(leader: Client, follower: Client) -> None:
        clock = leader.cluster.clock
        who = await guarded(leader)

        async def tokens() -> dict[str, Any]:
            status, page = await who["viewer"]("GET", DOCTOR)
            assert status == 200
            return next(item for item in page["items"] if item["check"] == "tokens")

        assert (await tokens())["detail"].startswith("none expires within 14 days; ")
        made = {}
        for name, days in (("soon", 3), ("later", 30), ("revoked", 2)):
            body = {"name": name, "role": "viewer", "expires_at": format_time(clock.wall + days * 86_400_000)}
            status, made[name] = await who["admin"]("POST", "/v1/tokens", body)
            assert status == 201
        assert (await who["admin"]("DELETE", f"/v1/tokens/{made['revoked']['id']}"))[0] < 300
        seen = await tokens()
        assert seen["state"] == "warn"
        assert seen["detail"].startswith("1 expires within 14 days, the first in 3.0; ")
        assert not any(name in str(seen) for name in ("later", "revoked"))

    two_of_three(tmp_path, test)


def test_leaderships_and_remote_workers(tmp_path: Path) -> None:
    async def test(leader: Client, follower: Client) -> None:
        cluster = leader.cluster
        for term in range(2, 7):
            cluster.apply(OpenLeadership(term, "n1"))
        gpu = worker_key("gpu")
        cluster.apply(OpenWorker(gpu, 0, b"n" * 16, 4, "i", version="0.0.1"))
        leader.context.cluster.heartbeat_ages = lambda: {gpu: 60_000}
        leader.context.cluster.troubles = lambda: {gpu: "no process"}
        seen = await found(follower)
        assert seen["elections"]["state"] == "warn"
        assert "worker gpu: 0.0.1" in seen["versions"]["detail"]
        told = [i["detail"] for i in seen[""]["items"] if i["check"] == "remote-workers"]
        assert told == ["1 silent: gpu for 1m", "starts no runs: gpu: no process"]

    two_of_three(tmp_path, test)
