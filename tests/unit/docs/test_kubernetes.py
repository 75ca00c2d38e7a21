"""deploy/kubernetes: its manifests fit each other and the node, and docs/kubernetes.md explains them."""

from __future__ import annotations

import ipaddress
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from raftsched.api.routes import ROUTES
from raftsched.config.node import NodeConfig, load
from raftsched.config.reading import default_of
from raftsched.config.worker import SETTINGS as WORKER_SETTINGS
from raftsched.embedded.systemd import STOP_SLACK_S
from raftsched.security.keyring import own_key
from tests.support.authority import certificate, put
from tests.support.manifests import (
    NAMESPACE,
    ROOT,
    container_of,
    documents,
    environment,
    errors_of,
    everything,
    kustomized,
    mounts,
    pod_of,
)

(NODES,) = documents("base", "nodes.yaml")
(WORKERS,) = documents("components", "workers", "workers.yaml")
SERVICES = {found["metadata"]["name"]: found for found in documents("base", "services.yaml")}
PAGE = (ROOT.parents[1] / "docs" / "kubernetes.md").read_text()
PODS = [f"raftsched-{number}" for number in range(NODES["spec"]["replicas"])]
EACH = pytest.mark.parametrize("controller", [NODES, WORKERS], ids=["nodes", "workers"])
LABELS = NODES["spec"]["selector"]["matchLabels"]


def config_of(pod: str, tmp_path: Path, **more: str) -> NodeConfig:
    """The settings of a pod, with files where its secrets would be."""
    own_key(tmp_path)
    files = put(tmp_path, certificate("n1"))
    said = environment(NODES, pod)
    key = {"CLUSTER_KEY_FILE": tmp_path / "cluster.key"}
    for name, path in {**key, "TLS_CERT": files.cert, "TLS_KEY": files.key, "TLS_CA": files.cert}.items():
        assert said[f"RAFTSCHED_{name}"].startswith(tuple(mounts(NODES).values())), name
        said[f"RAFTSCHED_{name}"] = str(path)
    return load({}, {**said, **more, "RAFTSCHED_DATA": "/var/lib/raftsched/data"})


@pytest.mark.parametrize("pod", PODS)
def test_a_pod_is_a_node_of_the_cluster_of_all(pod: str, tmp_path: Path) -> None:
    config = config_of(pod, tmp_path)
    assert config.id == pod
    assert sorted(config.peers) == PODS
    headless = NODES["spec"]["serviceName"]
    for peer, address in config.peers.items():
        assert str(address) == f"{peer}.{headless}.{NAMESPACE}.svc:7501", "its name, whatever its address"
    assert str(config.advertise_http) == f"{pod}.{headless}.{NAMESPACE}.svc:7401"
    assert config.guarded
    assert not config.join
    assert config.raft.wildcard
    for name in ("raftsched", f"raftsched.{NAMESPACE}.svc"):
        assert name in config.http_hosts, "as the service is called"


@pytest.mark.parametrize("number, joins", [(0, ""), (2, ""), (3, "true"), (10, "true")])
def test_pods_beyond_these_join_them(number: int, joins: str, tmp_path: Path) -> None:
    """What the shell in front of the node does, with a program in the node's place."""
    shell = container_of(NODES)["command"][3:]
    assert container_of(NODES)["command"][:3] == ["tini", "-s", "--"], "as the image has it"
    (script,) = container_of(NODES)["args"]
    assert script.rstrip().endswith("exec raftsched node"), "no shell between tini and the node"
    stub = tmp_path / "raftsched"
    stub.write_text('#!/bin/sh\necho "$1 $RAFTSCHED_JOIN"\n')
    stub.chmod(0o755)
    pod = f"raftsched-{number}"
    variables = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RAFTSCHED_ID": pod}
    done = subprocess.run([*shell, script], env=variables, capture_output=True, text=True, check=True)
    assert done.stdout == f"node {joins}\n"
    config = config_of(pod, tmp_path, RAFTSCHED_JOIN=joins)
    assert config.join is bool(joins)
    assert config.advertise_raft.host == f"{pod}.{NODES['spec']['serviceName']}.{NAMESPACE}.svc"
    assert set(PODS) <= set(config.peers)


def test_pods_start_together_and_find_each_other_before_they_are_ready() -> None:
    assert NODES["spec"]["podManagementPolicy"] == "Parallel"
    headless = SERVICES[NODES["spec"]["serviceName"]]["spec"]
    assert headless["clusterIP"] == "None"
    assert headless["publishNotReadyAddresses"] is True
    assert "publishNotReadyAddresses" not in SERVICES["raftsched"]["spec"], "users come to those that are ready"
    ports = {port["name"]: port["containerPort"] for port in container_of(NODES)["ports"]}
    for service in SERVICES.values():
        assert service["spec"]["selector"] == LABELS == NODES["spec"]["template"]["metadata"]["labels"]
        for port in service["spec"]["ports"]:
            assert port["port"] == ports[port["targetPort"]]


def test_probes_ask_what_there_is_and_restart_nobody_for_want_of_a_leader() -> None:
    paths = {route.path for route in ROUTES}
    probes = {kind: container_of(NODES)[kind] for kind in ("startupProbe", "livenessProbe", "readinessProbe")}
    for kind, probe in probes.items():
        asked = probe["httpGet"]
        assert asked == {"path": "/readyz" if kind == "readinessProbe" else "/livez", "port": "api", "scheme": "HTTPS"}
        assert asked["path"] in paths
    start = probes["startupProbe"]
    assert start["periodSeconds"] * start["failureThreshold"] >= 3600, "a long log is applied again at a start"


@EACH
def test_a_pod_that_goes_has_the_time_to_end_its_runs(controller: dict[str, Any]) -> None:
    said = environment(controller, "x")
    grace = float(said.get("RAFTSCHED_GRACE", f"{default_of('grace') / 1000}s").removesuffix("s"))
    first = (
        container_of(controller).get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
    )
    assert pod_of(controller)["terminationGracePeriodSeconds"] > float(first[1]) + grace + STOP_SLACK_S


@EACH
def test_a_pod_is_as_the_standard_restricted_has_it(controller: dict[str, Any]) -> None:
    pod, container = pod_of(controller), container_of(controller)
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] == 10001
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert "cpu" not in container["resources"]["limits"]


@EACH
def test_volumes_are_there_and_secrets_are_for_the_group_to_read(controller: dict[str, Any]) -> None:
    volumes = {volume["name"]: volume for volume in pod_of(controller)["volumes"]}
    templates = {claim["metadata"]["name"] for claim in controller["spec"].get("volumeClaimTemplates", ())}
    assert set(mounts(controller)) == set(volumes) | templates
    for volume in volumes.values():
        if "secret" in volume:
            assert volume["secret"]["defaultMode"] == 0o440
            assert f"create secret generic {volume['secret']['secretName']}" in PAGE


def test_workers_know_the_nodes_and_no_key_of_theirs(tmp_path: Path) -> None:
    said = environment(WORKERS, "x")
    settings = {f"RAFTSCHED_{name.upper()}" for name in (*WORKER_SETTINGS, "ca_file")}
    assert set(said) - {"POD_NAMESPACE"} <= settings
    servers = said["RAFTSCHED_SERVER"].split(",")
    assert servers == [f"https://{config_of(pod, tmp_path).advertise_http}" for pod in PODS]
    (tls,) = (volume["secret"] for volume in pod_of(WORKERS)["volumes"] if volume["name"] == "tls")
    assert [item["key"] for item in tls["items"]] == ["ca.crt"]
    assert "key" not in mounts(WORKERS)


def test_the_raft_port_is_for_nodes_alone() -> None:
    (policy,) = documents("base", "network.yaml")
    assert policy["spec"]["podSelector"]["matchLabels"] == LABELS
    for rule in policy["spec"]["ingress"]:
        if {"protocol": "TCP", "port": "raft"} in rule["ports"]:
            assert rule["from"] == [{"podSelector": {"matchLabels": LABELS}}]
        else:
            assert rule["ports"] == [{"protocol": "TCP", "port": "api"}]
            assert rule["from"], "an empty list is everybody"
            for source in rule["from"]:
                assert all(selector["matchLabels"] for selector in source.values())


def test_no_job_runs_where_the_key_is() -> None:
    with_key = [where for where in (NODES, WORKERS) if "key" in mounts(where)]
    assert with_key == [NODES]
    assert environment(NODES, PODS[0])["RAFTSCHED_EXECUTORS"] == "http", "events are delivered by nodes"
    assert "RAFTSCHED_JOBS_AS_NODE" not in environment(NODES, PODS[0])
    assert environment(WORKERS, "x")["RAFTSCHED_JOBS_AS_NODE"] == "true"


def test_jobs_reach_neither_the_metadata_service_nor_the_api_server() -> None:
    (policy,) = documents("components", "workers", "egress.yaml")
    spec = policy["spec"]
    assert spec["podSelector"]["matchLabels"] == WORKERS["spec"]["selector"]["matchLabels"]
    assert set(spec["policyTypes"]) == {"Ingress", "Egress"}
    assert spec["ingress"] == []
    blocks = []
    for rule in spec["egress"]:
        assert rule["to"], "an empty list is everybody"
        if any("ipBlock" in to for to in rule["to"]):
            blocks += [to["ipBlock"] for to in rule["to"]]
        else:
            assert rule["ports"]
            assert all(to["podSelector"]["matchLabels"] for to in rule["to"])
    # The metadata services of clouds, by IPv6 as well, and addresses that services and machines of a cluster have.
    services = ("169.254.169.254", "168.63.129.16", "fd00:ec2::254", "2002:a9fe:a9fe::1", "64:ff9b::a9fe:a9fe")
    machines = ("10.96.0.1", "172.20.0.1", "192.168.49.2", "100.100.100.200")
    for address in services + machines:
        ip = ipaddress.ip_address(address)
        for block in blocks:
            if ip in ipaddress.ip_network(block["cidr"]):
                assert any(ip in ipaddress.ip_network(left) for left in block["except"]), address
    for block in blocks:
        whole = ipaddress.ip_network(block["cidr"])
        assert all(ipaddress.ip_network(left).subnet_of(whole) for left in block["except"])  # type: ignore[arg-type]


def test_machines_are_emptied_one_after_the_other() -> None:
    (budget,) = documents("base", "disruption.yaml")
    assert budget["spec"] == {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    spread = pod_of(NODES)["topologySpreadConstraints"][0]
    assert (spread["topologyKey"], spread["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "DoNotSchedule")


def test_no_secret_is_in_it() -> None:
    kinds = {found["kind"] for _, found in everything()}
    assert "Secret" not in kinds


def test_every_file_belongs_to_its_folder() -> None:
    for file in ROOT.rglob("kustomization.yaml"):
        said = yaml.safe_load(file.read_text())
        named = {name for name in said.get("resources", ()) if name.endswith(".yaml")}
        assert named == {other.name for other in file.parent.glob("*.yaml")} - {file.name}, file
    for folder in (ROOT / "components").iterdir():
        assert f"`components/{folder.name}`" in PAGE, folder.name


@pytest.mark.parametrize("line", re.findall(r"^\| `([a-zA-Z]+)[`:]", PAGE, re.MULTILINE))
def test_the_page_explains_lines_that_there_are(line: str) -> None:
    texts = "".join(file.read_text() for file, _ in everything())
    assert re.search(rf"\b{line}\b", texts)


TOGETHER = ("workers", "cert-manager", "service-monitor", "one-machine")


def test_all_of_it_is_rendered_and_valid(tmp_path: Path) -> None:
    objects = kustomized(TOGETHER, tmp_path)
    rendered = {(found["kind"], found["metadata"]["name"]): found for found in objects}
    nodes = rendered["StatefulSet", "raftsched"]
    assert container_of(nodes)["image"].startswith("registry.example/raftsched:")
    said = environment(nodes, PODS[0])
    assert said["RAFTSCHED_EXECUTORS"] == "http"
    assert {one["whenUnsatisfiable"] for one in pod_of(nodes)["topologySpreadConstraints"]} == {"ScheduleAnyway"}
    assert {found["metadata"].get("namespace") for (kind, _), found in rendered.items() if kind != "Namespace"} == {
        NAMESPACE
    }
    assert [text for found in objects for text in errors_of(found)] == []
