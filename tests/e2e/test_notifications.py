"""Notifications live: a run that starts and runs long, leaders and nodes that change, sentences, a mail; each once."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.e2e.steps import create, run
from tests.support.cluster import Cluster, NodeProcess
from tests.support.mail_server import mail_server_in_thread
from tests.support.receiver import receiving

pytestmark = pytest.mark.e2e

TAKEN = (204, b"")


def hook(node: NodeProcess, name: str, **fields: Any) -> str | None:
    reply = node.request("POST", "/v1/webhooks", {"name": name, "retry_delays": ["100ms"] * 20, **fields})
    assert reply.status == 201, (reply.status, reply.body)
    secret: str | None = reply.json["secret"]
    return secret


def test_of_runs_and_of_the_cluster_each_receiver_is_told_once() -> None:
    with Cluster(3) as cluster, receiving(lambda *_: TAKEN) as programs, receiving(lambda *_: TAKEN) as channel:
        leader = cluster.leader()
        names = ["leader_changed", "node_lost", "node_back"]
        secret = hook(leader, "ops", url=programs.url, cluster_events=names)
        assert secret is not None
        with mail_server_in_thread() as mails:
            smtp = {"host": "127.0.0.1", "port": mails.port, "tls": "none", "from": "r@a.test", "to": ["a@b.test"]}
            hook(leader, "people", kind="email", smtp=smtp)
            hook(leader, "team", kind="slack", url=channel.url, page="https://p/")
            asked = ["started", "running_long", "failed"]
            notify = [
                {"on": asked, "webhook": "ops", "longer_than": "200ms"},
                {"on": ["running_long"], "webhook": "team", "longer_than": "200ms"},
                {"on": ["failed"], "webhook": "people"},
            ]
            job = create(
                leader, {"trigger": {"manual": True}, "handler": {"shell": "sleep 1; exit 3"}, "notify": notify}
            )
            instance = run(leader, job["id"])

            def all_told() -> bool:
                return (len(programs.received), len(channel.received), len(mails.mails)) == (3, 1, 1)

            cluster.wait("all are told", all_told, 90)
            ((sender, to, mail),) = mails.mails
        assert [event["subject"] for event in programs.events(secret)] == [instance] * 3
        kinds = Counter(event["type"].rpartition(".")[2] for event in programs.events(secret))
        assert kinds == dict.fromkeys(asked, 1)
        text = json.loads(channel.received[0].body)["text"]
        assert "takes longer than 200ms" in text
        assert f"https://p/ui/runs/{instance}" in text
        assert (sender, to, mail["To"]) == ("r@a.test", ["a@b.test"], "a@b.test")
        assert "failed with exit code 3" in mail.get_content()

        leader.kill()
        other = cluster.leader()

        def heard(*wanted: str) -> bool:
            found = {(e["type"].rpartition(".")[2], e["subject"]) for e in programs.events(secret)[3:]}
            return {(kind, leader.id) for kind in wanted} <= found

        cluster.wait("it was lost", lambda: heard("node_lost"), 90)
        leader.start()
        cluster.wait("it is back", lambda: heard("node_lost", "node_back"), 90)
        events = programs.events(secret)[3:]
        assert {e["subject"] for e in events if e["type"].endswith("leader_changed")} >= {other.id}
        assert len({e["id"] for e in events if e["type"].endswith("node_lost")}) == 1
