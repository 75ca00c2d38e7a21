"""What real nodes export: docs/metrics.md lists it, and rules, alerts and the dashboard ask for nothing else. And what
they log as JSON."""

from __future__ import annotations

import json
import re
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from raftsched.core.model import Outcome
from tests.e2e.steps import create, run, wait_final
from tests.support.authority import ca_file
from tests.support.cluster import Cluster
from tests.support.ports import free_ports
from tests.support.prometheus import Exported, Server, asked, exported, serving

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "metrics.md"
RULES = ROOT / "deploy" / "prometheus"
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "raftsched.json").read_text())
OF_PROMETHEUS = {"job", "instance", "le"}  # labels that are not the nodes'


@dataclass
class Watched:
    """Three nodes on which something of everything happened that has metrics."""

    cluster: Cluster

    def texts(self) -> list[str]:
        replies = [node.request("GET", "/metrics") for node in self.cluster.nodes]
        assert {reply.status for reply in replies} == {200}
        return [reply.body.decode() for reply in replies]

    def metrics(self) -> dict[str, Exported]:
        return exported(self.texts())


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    nobody = f"syslog+udp://127.0.0.1:{free_ports(1)[0]}"
    with Cluster(3, tls=True, flags=["--log-format", "json", "--output-ship", nobody]) as cluster:
        node = cluster.nodes[0]
        (closed,) = free_ports(1)
        hook = {"name": "deaf", "url": f"http://127.0.0.1:{closed}/", "retry_delays": ["100ms"], "events": ["failed"]}
        for method, path, body in (
            ("PUT", "/v1/queues/narrow", {"max_running": 2}),
            ("PUT", "/v1/queues/shut", {"paused": True}),
            ("PUT", "/v1/namespaces/billing", {"limits": {"max_running": 5}}),
            ("POST", "/v1/webhooks", hook),
        ):
            reply = node.request(method, path, body)
            assert reply.status in (200, 201), (path, reply.status, reply.body)
        assert node.request("GET", "/v1/cluster/log?after=1").status == 200
        manual = {"manual": True}
        good = create(node, {"trigger": manual, "handler": {"shell": "echo good"}, "queue": "narrow"})
        bad = create(node, {"trigger": manual, "handler": {"exec": ["false"]}, "namespace": "billing"})
        slow = create(node, {"trigger": manual, "handler": {"shell": "sleep 60"}, "timeout": "100ms"})
        once = create(node, {"trigger": {"in": "0s"}, "handler": {"shell": "true"}})
        waits = create(node, {"trigger": manual, "handler": {"shell": "true"}, "queue": "shut"})
        run(node, waits["id"])
        hourly = create(node, {"trigger": {"every": "1h"}, "handler": {"shell": "true"}})
        assert node.request("POST", f"/v1/jobs/{hourly['id']}/skip-next", {}).status == 200
        ends = [wait_final(cluster, node, run(node, job["id"]))["state"] for job in (good, bad, slow)]
        assert ends == ["SUCCEEDED", "FAILED", "TIMED_OUT"]
        with socket.create_connection(("127.0.0.1", node.http_port), 30) as plain:  # where TLS is spoken
            plain.sendall(b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n")
            assert plain.recv(4096)
        watched = Watched(cluster)

        def told() -> bool:
            found = watched.metrics()
            ended = found["raftsched_attempts_ended_total"].values
            return {"failed", "timed_out", "succeeded"} <= ended.get("outcome", set()) and _failed(watched, "deaf")

        assert node.get(f"/v1/jobs/{once['id']}")
        cluster.wait("all of it in the metrics", told)
        yield watched


def _failed(watched: Watched, webhook: str) -> bool:
    line = f'raftsched_webhook_failures_in_a_row{{webhook="{webhook}"}}'
    return all(f"{line} 0.0" not in text and line in text for text in watched.texts())


def row(name: str, metric: Exported) -> str:
    labels = ", ".join(f"`{label}`" for label in sorted(metric.labels))
    return f"| `{name}` | {metric.kind} | {labels} | {metric.words} |"


def test_the_page_lists_what_nodes_export_and_nothing_else(watched: Watched) -> None:
    table = [line for line in PAGE.read_text().splitlines() if re.match(r"\| `(?:raftsched|process)_", line)]
    wanted = [row(name, metric) for name, metric in sorted(watched.metrics().items())]
    assert table == wanted, "the table of docs/metrics.md should be:\n" + "\n".join(wanted)


# ---------------------------------------------------------------- what is asked of the metrics


def rules() -> list[dict[str, Any]]:
    files = [yaml.safe_load((RULES / name).read_text()) for name in ("recording.yml", "alerts.yml")]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


def queries() -> list[str]:
    """The queries of the dashboard's panels, as Grafana fills them in."""
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    assert found
    return [query.replace("$__rate_interval", "1m").replace("$job", "raftsched") for query in found]


def known(metrics: dict[str, Exported]) -> dict[str, set[str]]:
    """The names that a query may have, with the labels of each: series, and what recording rules make of them."""
    labels = {series: metric.labels for name, metric in metrics.items() for series in metric.series(name)}
    for rule in rules():
        if "record" in rule:
            names = asked(rule["expr"]).names
            made = re.findall(r'label_replace\(.*?, "(\w+)", "', rule["expr"])
            labels[rule["record"]] = {*made, *(label for name in names for label in labels.get(name, ()))}
    return labels


def test_rules_and_dashboard_ask_for_what_nodes_export(watched: Watched) -> None:
    metrics = watched.metrics()
    labels = known(metrics)
    values: dict[tuple[str, str], set[str]] = {
        (series, label): some
        for name, metric in metrics.items()
        for series in metric.series(name)
        for label, some in metric.values.items()
    }
    outcomes = {outcome.name.lower() for outcome in Outcome}
    for expression in [*(rule["expr"] for rule in rules()), *queries()]:
        one = asked(expression)
        assert one.names or "up{" in expression, expression
        assert one.names <= labels.keys(), expression
        there = OF_PROMETHEUS.union(*(labels[name] for name in one.names))
        assert one.labels <= there, expression
        for name, label, pattern in one.matchers:
            assert label in labels[name] | OF_PROMETHEUS, expression
            if label == "outcome":
                assert set(pattern.split("|")) <= outcomes, expression
            elif (name, label) in values and label not in ("namespace", *OF_PROMETHEUS):
                assert set(pattern.split("|")) <= values[name, label], expression
    for rule in rules():
        texts = " ".join(rule.get("annotations", {}).values())
        names = asked(rule["expr"]).names
        shown = set(re.findall(r"\$labels\.(\w+)", texts))
        assert shown <= OF_PROMETHEUS.union(*(labels[name] for name in names)), rule


@pytest.fixture(scope="module")
def prometheus(watched: Watched, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prometheus that scrapes the nodes and evaluates the rules, both every second."""
    directory = tmp_path_factory.mktemp("prometheus")
    for name in ("recording.yml", "alerts.yml"):
        shutil.copy(RULES / name, directory)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["recording.yml", "alerts.yml"],
        "scrape_configs": [
            {
                "job_name": "raftsched",
                "scheme": "https",
                "tls_config": {"ca_file": str(ca_file())},
                "static_configs": [{"targets": [f"127.0.0.1:{node.http_port}" for node in watched.cluster.nodes]}],
            }
        ],
    }
    with serving(directory, config) as server:
        watched.cluster.wait("Prometheus", server.ready)
        yield server


def fresh_work(watched: Watched) -> None:
    """Has runs end while Prometheus looks: rates of what ended before are none."""
    node = watched.cluster.nodes[0]
    jobs = [
        create(node, {"trigger": {"in": "0s"}, "handler": {"shell": "true"}}),
        create(node, {"trigger": {"in": "0s"}, "handler": {"exec": ["false"]}, "namespace": "billing"}),
    ]
    for job in jobs:
        watched.cluster.wait("a run", lambda job=job: node.get(f"/v1/jobs/{job['id']}/instances")["items"])


def has_numbers(watched: Watched, prometheus: Server, query: str) -> bool:
    """Whether series are found now; else there is fresh work, because that of before may be older than any rate."""
    if _numbers(prometheus.query(query)):
        return True
    fresh_work(watched)
    return False


def test_each_query_of_the_dashboard_finds_series_of_real_nodes(watched: Watched, prometheus: Server) -> None:
    scraped = 'min(count_over_time(raftsched_raft_term{job="raftsched"}[1m])) > 1'
    watched.cluster.wait("two scrapes of each node", lambda: prometheus.query(scraped))
    for query in queries():
        watched.cluster.wait(f"series for {query}", lambda query=query: has_numbers(watched, prometheus, query))


def _numbers(series: list[Any]) -> bool:
    return any(one["value"][1] != "NaN" for one in series)


def test_each_rule_can_be_evaluated_over_real_nodes(watched: Watched, prometheus: Server) -> None:
    def evaluated() -> list[dict[str, Any]] | None:
        found = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        return found if {rule["health"] for rule in found} != {"unknown"} else None

    found: list[dict[str, Any]] = watched.cluster.wait("the rules", evaluated)
    assert len(found) == len(rules())
    assert [(rule["name"], rule.get("lastError")) for rule in found if rule["health"] == "err"] == []
    for rule in rules():
        if "record" in rule:
            name = rule["record"]
            watched.cluster.wait(name, lambda name=name: has_numbers(watched, prometheus, name))
    ringing = {rule["name"] for rule in found if rule.get("state") == "firing"}
    ours = {"RaftschedDiskNearlyFull", "RaftschedWebhookFails", "RaftschedDeadLettersGrow"}
    assert ringing <= ours, "but for the machine's disk, the deaf, and runs that failed here on purpose"


def test_logs_are_objects_with_the_ids_of_what_they_are_about(watched: Watched) -> None:
    fields: set[str] = set()
    for node in watched.cluster.nodes:
        lines = [json.loads(line) for line in node.log.read_text().splitlines()]
        assert lines
        for line in lines:
            assert {"at", "level", "logger", "message"} <= line.keys()
            assert line["node"] == node.id
            fields |= line.keys()
    assert {"term", "peer", "session"} <= fields


def test_an_alert_rings_for_a_real_node_that_is_gone(watched: Watched, prometheus: Server) -> None:
    """The last of this module: it takes a node away."""
    follower = watched.cluster.followers()[0]
    follower.kill()
    for name, label in (("RaftschedNodeDown", "instance"), ("RaftschedMemberLost", "node")):
        wanted = {"instance": f"127.0.0.1:{follower.http_port}", "node": follower.id}[label]
        query = f'ALERTS{{alertname="{name}",{label}="{wanted}"}}'
        watched.cluster.wait(query, lambda query=query: prometheus.query(query))  # pending: it rings some minutes later
