"""TLS on the API of real nodes: the SDK, the command line, what nodes ask of each other, certificates that change."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.client.errors import ClientError
from tests.support.authority import Files, ca_file, certificate, put
from tests.support.cluster import Cluster, NodeProcess
from tests.support.patience import patient, wait_until
from tests.support.ports import dev_port

pytestmark = pytest.mark.e2e

JOB: dict[str, Any] = {"trigger": {"manual": True}, "handler": {"shell": "echo sealed"}}
ELSEWHERE = "http://192.0.2.1:7401"  # RFC 5737: nobody is there


@pytest.fixture(scope="module")
def sealed() -> Iterator[Cluster]:
    with Cluster(3, tls=True) as running:
        yield running


def command(*args: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSCHED_")}
    clean["XDG_CONFIG_HOME"] = str(cwd or "/nonexistent")
    return subprocess.run(
        [sys.executable, "-m", "raftsched", *args],
        capture_output=True, text=True, check=False, timeout=patient(60), cwd=cwd, env={**clean, **(env or {})},
    )  # fmt: skip


def urls(nodes: Sequence[NodeProcess]) -> str:
    return ",".join(node.url for node in nodes)


def serial(node: NodeProcess) -> str:
    """Of the certificate that it shows now."""
    connection = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=patient(10), context=node.cluster.tls)
    try:
        connection.connect()
        found = connection.sock.getpeercert()
    finally:
        connection.close()
    return str(found and found["serialNumber"])


def ran(node: NodeProcess) -> tuple[str, str]:
    """A run that printed something: its id, and the node that ran it."""
    job = node.request("POST", "/v1/jobs", JOB).json
    run = node.request("POST", f"/v1/jobs/{job['id']}/run", {}).json["id"]

    def ended() -> Any:
        found = node.find(f"/v1/instances/{run}")
        return found if found and found["state"] == "SUCCEEDED" else None

    return run, str(node.cluster.wait(f"{run} has succeeded", ended)["node"])


def test_the_sdk_and_the_command_line_speak_it(sealed: Cluster, tmp_path: Path) -> None:
    trusted = str(ca_file())
    with raftsched.Client(urls(sealed.nodes), ca_file=trusted) as client:
        job = client.jobs.create(name="sealed", **JOB)
        run = client.jobs.run(job)
        assert client.instances.wait(run.id).state == "SUCCEEDED"
        assert client.instances.output(run.id) == b"sealed\n"
        # A node's address is known once it has a session; the last may get its own after the first has run a job.
        urls_of_all = {node.url for node in sealed.nodes}
        wait_until(lambda: {n.http for n in client.cluster.status().nodes} == urls_of_all, "all nodes are announced")

    listed = command("--server", urls(sealed.nodes), "--ca-file", trusted, "jobs", "list", "-o", "name")
    assert (listed.returncode, listed.stdout) == (0, "sealed\n"), listed.stderr
    env = {"RAFTSCHED_SERVER": sealed.nodes[0].url, "RAFTSCHED_CA_FILE": trusted}
    healthy = command("doctor", "-o", "json", env=env)
    checks = {item["check"]: item for item in json.loads(healthy.stdout)["items"]}
    assert checks["reachable"]["state"] == "ok", healthy.stdout
    assert checks["certificates"]["state"] == "ok", healthy.stdout

    made = command("contexts", "set", "prod", sealed.nodes[1].url, "--ca-file", trusted, "--use", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert command("cluster", "status", cwd=tmp_path).returncode == 0
    benched = command("bench", "create", "--count", "20", "--concurrency", "4", cwd=tmp_path)
    assert benched.returncode == 0, benched.stderr


def test_a_bundle_of_a_real_cluster_holds_no_secret(sealed: Cluster, tmp_path: Path) -> None:
    node = sealed.nodes[0]
    secret = "T0P-" + "x" * 20
    job = {
        "name": "hidden-name",
        "trigger": {"manual": True},
        "handler": {"exec": ["true", secret], "env": {"PASSWORD": secret}},
        "params": {"key": secret},
        "description": secret,
    }
    assert node.request("POST", "/v1/jobs", job).status == 201
    assert node.request("PUT", "/v1/namespaces/default/secrets/x", {"value": secret}).status in (200, 201)
    hook = {"name": "ops", "url": f"https://example.com/{secret}", "events": ["failed"], "headers": {"X-Key": secret}}
    assert node.request("POST", "/v1/webhooks", hook).status == 201
    token = node.request("POST", "/v1/tokens", {"name": "some", "role": "viewer"}).json["secret"]
    for words in ((), ("--with-jobs",)):
        file = tmp_path / f"{len(words)}.tar.gz"
        made = command("--server", node.url, "--ca-file", str(ca_file()), "doctor", "--bundle", str(file), *words)
        assert made.returncode == 0, made.stderr
        with tarfile.open(file) as archive:
            texts = {m.name: archive.extractfile(m).read().decode() for m in archive.getmembers()}  # type: ignore[union-attr]
        assert "raftsched_raft_term" in texts[f"raftsched/metrics/{node.id}.txt"]
        for name, text in texts.items():
            assert secret not in text, name
            assert token not in text, name
        assert any("hidden-name" in text for text in texts.values()) == bool(words)


def test_who_is_not_trusted_is_told_why(sealed: Cluster) -> None:
    node = sealed.nodes[0]
    unknown = command("--server", node.url, "jobs", "list")
    assert (unknown.returncode, "--ca-file" in unknown.stderr) == (6, True), unknown.stderr
    other = command("--server", node.url, "--ca-file", str(ca_file("others")), "jobs", "list")
    assert (other.returncode, "not signed by an authority in" in other.stderr) == (6, True), other.stderr
    clear = command("--server", node.url.replace("https", "http"), "jobs", "list")
    assert clear.returncode == 2, clear.stderr
    assert "https://" in clear.stderr
    for more in ((), ("--server", f"{node.url},{ELSEWHERE}")):
        refused = command("--server", ELSEWHERE, "--token", "rs_secret", "jobs", "list", *more)
        assert (refused.returncode, "--insecure" in refused.stderr) == (5, True), refused.stderr
    with raftsched.Client(ELSEWHERE, token="rs_secret") as client, pytest.raises(ClientError) as failed:
        client.jobs.get("default/x")
    assert failed.value.code == "insecure"


def test_nodes_ask_each_other_by_it(sealed: Cluster) -> None:
    run, at = ran(sealed.leader())
    for node in sealed.nodes:
        reply = node.request("GET", f"/v1/instances/{run}/output?consistency=leader")  # it may have ended a moment ago
        assert (reply.status, reply.body) == (200, b"sealed\n"), (node.id, at, reply.body)
        sealed.wait(  # a follower asks the leader, who alone knows
            "how far everybody is",
            lambda node=node: all(n["lag"] is not None for n in node.get("/v1/cluster")["nodes"]),
        )


def test_a_certificate_is_replaced_while_streams_are_open(sealed: Cluster) -> None:
    node = sealed.nodes[0]
    before = serial(node)
    stream = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=patient(30), context=sealed.tls)
    stream.request("GET", "/v1/events?follow=true", headers={"Accept": "text/event-stream"})
    events = stream.getresponse()
    assert events.status == 200
    put(sealed.directory, certificate(node.id, days=60), node.id)
    sealed.wait("the new certificate is shown", lambda: serial(node) != before)
    job = node.request("POST", "/v1/jobs", JOB).json["id"]
    while job.encode() not in events.readline():
        pass
    stream.close()
    assert "was read again" in node.log.read_text()

    files = Files(sealed.directory / f"{node.id}.pem", sealed.directory / f"{node.id}.key")
    now = serial(node)
    files.cert.write_bytes(certificate("n9", by="others").certificate)  # no pair with the key
    sealed.wait("the pair is refused", lambda: "is not that of the certificate" in node.log.read_text())
    assert serial(node) == now
    put(sealed.directory, certificate(node.id), node.id)
    sealed.wait("all is well again", lambda: serial(node) == before)


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        pytest.param(certificate("n3", by="others"), "unable to get local issuer", id="another authority"),
        pytest.param(certificate("n3", ("n3.example",)), "not valid for", id="another host"),
    ],
)
def test_a_node_that_cannot_be_trusted_gives_no_output(sealed: Cluster, pair: Any, why: str) -> None:
    run, at = ran(sealed.leader())
    victim = sealed.node(at)
    asking = next(node for node in sealed.nodes if node is not victim)
    path = f"/v1/instances/{run}/output"
    put(sealed.directory, pair, at)
    try:
        # A connection that is open stays so: what is trusted is said when one is made.
        victim.terminate()
        victim.start()
        reply = sealed.wait(
            f"{at} is not trusted",
            lambda: (r := asking.request("GET", path)).status == 503 and b"not trusted" in r.body and r,
        )
        assert why.encode() in reply.body
        assert b"--tls-ca" in reply.body
    finally:
        put(sealed.directory, certificate(at), at)
        sealed.wait(f"{at} is trusted again", victim.ready)
    sealed.wait("its output is there again", lambda: asking.request("GET", path).body == b"sealed\n")


def test_clients_show_certificates(sealed: Cluster, tmp_path: Path) -> None:
    shown = put(tmp_path, certificate("somebody"), "somebody")
    strange = put(tmp_path, certificate("somebody", by="others"), "stranger")
    node = sealed.followers()[0]
    without = sealed.tls
    node.terminate()
    node.start("--tls-client-ca", str(ca_file()))
    try:
        sealed.tls = ssl.create_default_context(cafile=ca_file())
        sealed.tls.load_cert_chain(*shown)
        sealed.wait(f"{node.id} is ready", node.ready)
        trusted = ("--server", node.url, "--ca-file", str(ca_file()))
        mine = ("--client-cert", str(shown.cert), "--client-key", str(shown.key))
        theirs = ("--client-cert", str(strange.cert), "--client-key", str(strange.key))
        assert command(*trusted, *mine, "jobs", "list").returncode == 0
        refusals = {
            "--client-cert": command(*trusted, "jobs", "list"),
            "does not take the client certificate": command(*trusted, *theirs, "jobs", "list"),
        }
        for said, refused in refusals.items():
            assert (refused.returncode, said in refused.stderr) == (6, True), refused.stderr
        sealed.wait("it leads", lambda: node.request("POST", "/v1/cluster/leader", {"to": node.id}).status < 500)
        run, at = ran(node)
        for other in sealed.nodes:  # nodes show their own: whoever ran it, all have its output
            reply = other.request("GET", f"/v1/instances/{run}/output")
            assert (reply.status, reply.body) == (200, b"sealed\n"), (other.id, at, reply.body)
    finally:
        sealed.tls = without
        node.terminate()
        node.start()
        sealed.wait(f"{node.id} is ready", node.ready)


def test_dev_makes_its_certificates(tmp_path: Path) -> None:
    port = dev_port()
    dev = subprocess.Popen(
        [sys.executable, "-m", "raftsched", "dev", "--tls", "--nodes", "1", "--port", str(port), "--no-samples"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        assert dev.stdout is not None
        lines = []
        for line in dev.stdout:
            lines.append(line)
            if "ready; Ctrl-C" in line:
                break
        said = "".join(lines)
        curl = re.search(r"curl --cacert (\S+) (https://\S+)", said)
        assert curl is not None, said
        if (program := shutil.which("curl")) is not None:
            words = [program, "-sS", "--cacert", *curl.groups()]
            asked = subprocess.run(words, capture_output=True, check=False, cwd=tmp_path)
            assert json.loads(asked.stdout)["leader"] == "n1", asked.stderr
        assert command("jobs", "list", cwd=tmp_path).returncode == 0
        assert "https" in command("dev", "status", cwd=tmp_path).stdout
    finally:
        dev.send_signal(signal.SIGINT)
        dev.communicate(timeout=patient(60))
    assert dev.returncode == 0
