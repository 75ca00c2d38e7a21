"""raftsched.AsyncClient: writes go to the leader, reads stay, and a node that failed is asked last."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import raftsched
from raftsched.client.generated.cluster import ClusterNode, ClusterView
from raftsched.client.server_order import COOL_S, LEARN_EVERY_S, STRANGE_COOL_S, Nodes
from raftsched.client.servers import Server, parse_servers
from tests.support.stub_server import Reply, Request, serve
from tests.unit.client.test_transport import JOB, MADE

A, B, C = parse_servers("a:1,b:1,c:1")


def view(**http: str) -> ClusterView:
    nodes = [ClusterNode(id=n, role="follower", alive=True, http=h) for n, h in http.items()]
    return ClusterView(node="n1", leader="n2", term=1, formed=True, nodes=nodes)


def test_writes_go_to_the_leader_and_reads_stay_where_they_are() -> None:
    nodes = Nodes([A, B])
    assert nodes.order(0, lead=True) == [A, B]
    nodes.answered(A, {"raftsched-leader": "n2"}, lead=False)
    assert nodes.wants_to_learn(0)
    assert not nodes.wants_to_learn(1), "asked a moment ago"
    nodes.learn(view(n1="a:1", n2="c:1", n3="http://"))
    assert nodes.order(0, lead=True) == [C, A, B]
    assert nodes.order(0, lead=False) == [A, B, C]
    nodes.answered(C, {"raftsched-leader": "n2"}, lead=True)
    assert nodes.order(0, lead=False) == [A, B, C]
    assert not nodes.wants_to_learn(100)


def test_a_node_that_failed_is_asked_last_for_a_while() -> None:
    nodes = Nodes([A, B])
    nodes.answered(A, {"raftsched-leader": "n2"}, lead=False)
    nodes.learn(view(n2="c:1"))
    nodes.failed(C, 0)
    nodes.failed(A, 0)
    assert nodes.order(COOL_S - 1, lead=True) == [B, C, A]
    assert nodes.order(COOL_S + 1, lead=True) == [A, B, C], "an address that never answered has to wait longer"
    assert nodes.order(STRANGE_COOL_S + 1, lead=True) == [C, A, B]


def test_behind_a_path_nobody_is_looked_for() -> None:
    server = Server("http", "a", 80, "/jobs")
    nodes = Nodes([server])
    nodes.answered(server, {"raftsched-leader": "n2"}, lead=False)
    assert not nodes.wants_to_learn(0)


def test_who_was_asked_by_https_is_not_led_to_plain_http() -> None:
    server = Server("https", "a", 443)
    nodes = Nodes([server, A])
    nodes.answered(server, {"raftsched-leader": "n2"}, lead=False)
    assert nodes.wants_to_learn(0)
    nodes.learn(view(n1="https://n1:7401", n2="c:1"))
    assert nodes.order(0, lead=True) == [server, A, Server("https", "n1", 7401)]
    assert nodes.wants_to_learn(LEARN_EVERY_S)


def test_behind_a_proxy_with_tls_nobody_is_looked_for_twice() -> None:
    server = Server("https", "a", 443)
    nodes = Nodes([server])
    nodes.answered(server, {"raftsched-leader": "n2"}, lead=False)
    assert nodes.wants_to_learn(0)
    nodes.learn(view(n1="a:1", n2="c:1"))
    assert nodes.order(0, lead=True) == [server]
    assert not nodes.wants_to_learn(100)


def test_the_leader_is_found(tmp_path: Any) -> None:
    def follower(leader: str) -> Callable[[Request], Reply]:
        def answer(request: Request) -> Reply:
            if request.path == "/v1/cluster":
                nodes = [{"id": "n2", "role": "leader", "alive": True, "http": leader.removeprefix("http://")}]
                return 200, {"node": "n1", "leader": "n2", "term": 1, "formed": True, "nodes": nodes}
            return 201, MADE

        return answer

    async def main() -> None:
        with serve(lambda r: (201, MADE)) as leader, serve(follower(leader.url)) as one:
            c = raftsched.AsyncClient(one.url)
            async with c:
                c.transport.nodes.leader = "n2"  # as the header of an answer says
                await c.jobs.create(JOB)
                assert c.transport._shared.learning is not None
                await c.transport._shared.learning
                await c.jobs.create(JOB)
            assert [json.loads(r.body) for r in leader.requests] == [JOB]

    asyncio.run(main())
