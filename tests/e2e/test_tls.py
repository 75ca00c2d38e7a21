"""TLS on the API of real nodes: who is told what is wrong, certificates that change, and a dev cluster with its own."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.client.errors import ClientError
from tests.support.authority import Files, ca_file, certificate, put
from tests.support.cluster import Cluster, NodeProcess, free_ports

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
        capture_output=True, text=True, check=False, timeout=60, cwd=cwd, env={**clean, **(env or {})},
    )  # fmt: skip


def serial(node: NodeProcess) -> str:
    """Of the certificate that it shows now."""
    connection = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=10, context=node.cluster.tls)
    try:
        connection.connect()
        found = connection.sock.getpeercert()
    finally:
        connection.close()
    return str(found and found["serialNumber"])


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


def test_a_certificate_is_replaced_while_streams_are_open(sealed: Cluster) -> None:
    node = sealed.nodes[0]
    before = serial(node)
    stream = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=30, context=sealed.tls)
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


def test_dev_makes_its_certificates(tmp_path: Path) -> None:
    port = next(p for p in free_ports(20) if p < 65_000)
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
        dev.communicate(timeout=60)
    assert dev.returncode == 0
