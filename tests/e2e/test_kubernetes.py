"""deploy/kubernetes: pods as its manifests describe them, each in a network namespace, are a cluster.

A pod has the arguments and variables of its manifest, the files of its volumes with the modes that Kubernetes gives
them, and the names of the headless service.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.security.keyring import new_key
from tests.support.machines import Machine, network
from tests.support.manifests import NAMESPACE, container_of, documents, environment, mounts
from tests.support.patience import wait_until

pytestmark = pytest.mark.e2e

(NODES,) = documents("base", "nodes.yaml")
(WORKERS,) = documents("components", "workers", "workers.yaml")
NAMES = [f"raftsched-{number}" for number in range(3)]
WORKER = "raftsched-worker-x"
DATA = "/var/lib/raftsched/data"


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    addresses = {name: f"10.244.0.{number}" for number, name in enumerate([*NAMES, WORKER], 1)}
    short = {f"k{number}": address for number, address in enumerate(addresses.values())}  # of a network device
    commands = {"tini": '#!/bin/sh\n[ "$1 $2" = "-s --" ] && shift 2 && exec "$@"\n'}
    with network(short, tmp_path, commands) as machines:
        found = dict(zip(addresses, machines, strict=True))
        names(found)
        yield found


def names(pods: dict[str, Machine]) -> None:
    """Tells all pods the addresses of all, as the service without an address of its own does."""
    lines = "".join(f"{pod.address} {name}.raftsched-nodes.{NAMESPACE}.svc\n" for name, pod in pods.items())
    for pod in pods.values():
        (pod.etc / "hosts").write_text(f"127.0.0.1 localhost\n{lines}")


def put_volumes(pods: dict[str, Machine]) -> None:
    """The secrets, as docs/kubernetes.md makes them, and the roots of the volumes: of root, for the pod's group."""
    authority = pods[NAMES[0]].root.parent / "ca"
    hosts = [f"{name}.raftsched-nodes.{NAMESPACE}.svc" for name in NAMES]
    maker = pods[NAMES[0]]
    maker.must(f"raftsched certs init --dir {authority}")
    maker.must(f"raftsched certs node api --dir {authority} {' '.join(f'--host {host}' for host in hosts)}")
    key = new_key()
    at = mounts(NODES)
    for name, pod in pods.items():
        secrets = {(at["tls"], "ca.crt"): (authority / "ca.crt").read_bytes()}
        if name in NAMES:
            secrets[at["tls"], "tls.crt"] = (authority / "api.crt").read_bytes()
            secrets[at["tls"], "tls.key"] = (authority / "api.key").read_bytes()
            secrets[at["key"], "cluster.key"] = key
        for (directory, file), content in secrets.items():
            put_secret(pod, f"{directory}/{file}", content)
        volume = pod.root / "var" / "lib" / "raftsched"
        volume.mkdir()
        volume.chmod(0o2775)


def put_secret(pod: Machine, path: str, content: bytes) -> None:
    place = pod.root / path[1:]
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(0o440)


def start(pod: Machine, controller: dict[str, Any], name: str) -> None:
    pod.environment = {**environment(controller, name), "RAFTSCHED_DATA": DATA}  # that of the image
    container = container_of(controller)
    entry = container.get("command", ["tini", "-s", "--", "raftsched"])  # else that of the image
    pod.start(shlex.join([*entry, *container["args"]]))


def probed(pod: Machine, which: str) -> bool:
    """As the kubelet does it: by the pod's address, and without a look at the certificate."""
    asked = container_of(NODES)[which]["httpGet"]
    port = {item["name"]: item["containerPort"] for item in container_of(NODES)["ports"]}[asked["port"]]
    url = f"{asked['scheme'].lower()}://{pod.address}:{port}{asked['path']}"
    return pod.do(f"curl -skf -m 5 {url}")[0] == 0


def test_pods_are_a_cluster_whatever_their_addresses(pods: dict[str, Machine]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    put_volumes(pods)
    first, second, third = (pods[name] for name in NAMES)

    # One after the other: none is ready before all three are there.
    start(first, NODES, NAMES[0])
    wait_until(lambda: probed(first, "startupProbe"), "the first to be alive")
    assert not probed(first, "readinessProbe")
    start(second, NODES, NAMES[1])
    start(third, NODES, NAMES[2])
    for pod in (first, second, third):
        wait_until(lambda p=pod: probed(p, "readinessProbe"), "a pod to be ready")  # type: ignore[misc]
        assert probed(pod, "livenessProbe")

    # As docs/kubernetes.md goes on.
    admin = first.must(f"raftsched tokens bootstrap --data {DATA}").strip()
    as_admin = f"RAFTSCHED_TOKEN={admin} RAFTSCHED_CA_FILE=/etc/raftsched/tls/ca.crt"
    assert second.must(f"raftsched health --live --data {DATA}") == "alive\n"
    server = f"--server https://{NAMES[0]}.raftsched-nodes.{NAMESPACE}.svc:7401"
    token = first.must(f"{as_admin} raftsched {server} tokens create workers --role worker -o name")
    put_secret(pods[WORKER], "/etc/raftsched/worker/token", token.encode())
    start(pods[WORKER], WORKERS, WORKER)

    # A pod comes back with another address behind its name.
    second.end()
    second.move("10.244.0.102")
    names(pods)
    start(second, NODES, NAMES[1])
    wait_until(lambda: probed(second, "readinessProbe"), "it to be ready again")

    workers = f"{as_admin} raftsched {server} workers list -o name"
    wait_until(lambda: WORKER in first.must(workers), "the worker to be there", every=0.2)
