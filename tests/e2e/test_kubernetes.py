"""deploy/helm and deploy/kubernetes: pods as their manifests describe them, each in a network namespace, are a cluster.

A pod has the arguments and variables of its manifest, the files of its volumes with the modes that Kubernetes gives
them, and the names of the headless service.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.core.levels import newest_level
from raftsched.security.keyring import new_key
from tests.golden.releases import RELEASES
from tests.support.helm import MINIMAL, Helm, there_is_helm
from tests.support.machines import Machine, network
from tests.support.manifests import NAMESPACE, container_of, documents, environment, mounts, pod_of
from tests.support.patience import patient, wait_until

pytestmark = pytest.mark.e2e


def controllers() -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the StatefulSet and the Deployment: the chart's, or where there is no Helm those for Kustomize."""
    if not there_is_helm():
        (nodes,) = documents("base", "nodes.yaml")
        (workers,) = documents("components", "workers", "workers.yaml")
        return nodes, workers
    with Helm() as helm:
        found = {one["kind"]: one for one in helm.render({**MINIMAL, "workers": {"default": {}}}, namespace=NAMESPACE)}
    return found["StatefulSet"], found["Deployment"]


NODES, WORKERS = controllers()
NAMES = [f"raftsched-{number}" for number in range(3)]
WORKER = "raftsched-worker-x"
CLIENT = "client"
DATA = "/var/lib/raftsched/data"


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    addresses = {name: f"10.244.0.{number}" for number, name in enumerate([*NAMES, WORKER, CLIENT], 1)}
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


def start(pod: Machine, controller: dict[str, Any], name: str, source: Path | None = None) -> None:
    """`source`: holds the package that its image has; None: this checkout's."""
    pod.environment = {**environment(controller, name), "RAFTSCHED_DATA": DATA}  # that of the image
    if source is not None:
        pod.environment |= {"PYTHONPATH": str(source), "PYTHONSAFEPATH": "1"}
    container = container_of(controller)
    entry = container.get("command", ["tini", "-s", "--", "raftsched"])  # else that of the image
    pod.start(shlex.join([*entry, *container["args"]]))


def end(pod: Machine, controller: dict[str, Any]) -> None:
    """As the kubelet does it: preStop, SIGTERM, and no longer than the manifest says."""
    pre_stop = container_of(controller).get("lifecycle", {}).get("preStop")
    if pre_stop is not None:
        pod.must(shlex.join(pre_stop["exec"]["command"]))
    (process,) = pod.started
    process.terminate()
    assert process.wait(patient(pod_of(controller)["terminationGracePeriodSeconds"])) == 0, pod.said()
    pod.started.clear()


def probed(pod: Machine, which: str) -> bool:
    """As the kubelet does it: by the pod's address, and without a look at the certificate."""
    asked = container_of(NODES)[which]["httpGet"]
    port = {item["name"]: item["containerPort"] for item in container_of(NODES)["ports"]}[asked["port"]]
    url = f"{asked['scheme'].lower()}://{pod.address}:{port}{asked['path']}"
    return pod.do(f"curl -skf -m 5 {url}")[0] == 0


def test_pods_are_a_cluster_and_are_updated_whatever_their_addresses(pods: dict[str, Machine], tmp_path: Path) -> None:
    """From the last release to this version, one pod after the other, under load: nothing is lost or missed."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    before = RELEASES[-1].unpack_source(tmp_path / "release")  # None: a shallow clone; then it is a restart
    put_volumes(pods)
    first, second, third = (pods[name] for name in NAMES)

    # One after the other: none is ready before all three are there.
    start(first, NODES, NAMES[0], before)
    wait_until(lambda: probed(first, "startupProbe"), "the first to be alive", every=0.2)
    assert not probed(first, "readinessProbe")
    start(second, NODES, NAMES[1], before)
    start(third, NODES, NAMES[2], before)
    for pod in (first, second, third):
        wait_until(lambda p=pod: probed(p, "readinessProbe"), "a pod to be ready", every=0.2)  # type: ignore[misc]
        assert probed(pod, "livenessProbe")

    # As docs/kubernetes.md goes on.
    admin = first.must(f"raftsched tokens bootstrap --data {DATA}").strip()
    ca = "/etc/raftsched/tls/ca.crt"
    as_admin = f"RAFTSCHED_TOKEN={admin} RAFTSCHED_CA_FILE={ca}"
    assert second.must(f"raftsched health --live --data {DATA}") == "alive\n"
    server = f"--server https://{NAMES[0]}.raftsched-nodes.{NAMESPACE}.svc:7401"
    token = first.must(f"{as_admin} raftsched {server} tokens create workers --role worker -o name")
    put_secret(pods[WORKER], "/etc/raftsched/worker/token", token.encode())
    start(pods[WORKER], WORKERS, WORKER, before)
    client = pods[CLIENT]
    servers = environment(WORKERS, WORKER)["RAFTSCHED_SERVER"]
    client.environment = {"RAFTSCHED_SERVER": servers, "RAFTSCHED_TOKEN": admin, "RAFTSCHED_CA_FILE": ca}
    client.start(f"{sys.executable} -m tests.support.pod_load")
    wait_until(lambda: "the load is there" in client.said(), client.said, every=0.2)

    # The new image: the last pod goes first, and each comes back with another address behind its name.
    for number in reversed(range(len(NAMES))):
        pod = pods[NAMES[number]]
        end(pod, NODES)
        pod.move(f"10.244.0.{101 + number}")
        names(pods)
        start(pod, NODES, NAMES[number])
        wait_until(lambda p=pod: probed(p, "startupProbe"), pod.said, every=0.2)  # type: ignore[misc]
        wait_until(lambda p=pod: probed(p, "readinessProbe"), pod.said, every=0.2)  # type: ignore[misc]
    end(pods[WORKER], WORKERS)
    start(pods[WORKER], WORKERS, WORKER)

    workers = f"{as_admin} raftsched {server} workers list -o name"
    wait_until(lambda: WORKER in first.must(workers), "the worker to be there", every=0.2)
    wait_until(lambda: {*levels(first, as_admin)} == {newest_level()}, "the level to rise", every=0.2)
    client.end()
    found = json.loads(client.said().splitlines()[-1])
    print(found)
    assert found["accepted"] > 0
    assert found["due"] > len(NAMES)
    assert (found["lost"], found["missed"], found["not succeeded"]) == ([], [], [])


def levels(pod: Machine, as_admin: str) -> list[int]:
    """Returns the level of the cluster, and the newest that each node knows."""
    server = f"https://{NAMES[0]}.raftsched-nodes.{NAMESPACE}.svc:7401"
    said = json.loads(pod.must(f"{as_admin} raftsched --server {server} cluster status -o json"))
    return [said["level"], *(node["level"] for node in said["nodes"])]
