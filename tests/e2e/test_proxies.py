"""deploy/proxies: nginx, HAProxy and Caddy with these files, in front of a node that is there and two that are not."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.authority import ca_file, certificate, put
from tests.support.cluster import Cluster
from tests.support.patience import patient, wait_until
from tests.support.ports import free_ports

pytestmark = pytest.mark.e2e

HERE = Path(__file__).parents[2] / "deploy" / "proxies"
NAME = "jobs.example"


class Front:
    """A place to put a proxy's file, and what its addresses and paths become there."""

    def __init__(self, directory: Path, node: int) -> None:
        self.directory = directory
        plain, self.port, dead, deaf = free_ports(4)
        files = put(directory, certificate("proxy", hosts=(NAME,)), "proxy")
        (directory / "proxy.both").write_bytes(files.cert.read_bytes() + files.key.read_bytes())
        self.replaced = {
            "/etc/ssl/jobs.example.crt": str(files.cert),
            "/etc/ssl/jobs.example.key": str(files.key),
            "/etc/haproxy/jobs.example.pem": str(directory / "proxy.both"),
            "/etc/raftsched/ca.crt": str(ca_file()),
            "10.0.0.1:7401": f"127.0.0.1:{dead}",
            "10.0.0.2:7401": f"127.0.0.1:{node}",
            "10.0.0.3:7401": f"127.0.0.1:{deaf}",
            "listen 80;": f"listen 127.0.0.1:{plain};",
            "listen 443 ": f"listen 127.0.0.1:{self.port} ",
            "bind :80": f"bind 127.0.0.1:{plain}",
            "bind :443": f"bind 127.0.0.1:{self.port}",
            "grace_period 10s": "grace_period 1s\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust",
            f"{NAME} {{": f"https://{NAME}:{self.port} {{\n\ttls {files.cert} {files.key}",
        }

    def put(self, name: str) -> Path:
        text = (HERE / name).read_text()
        for old, new in self.replaced.items():
            if not old.endswith("{") or name == "Caddyfile":
                text = text.replace(old, new)
        file = self.directory / name
        file.write_text(text)
        return file

    def connection(self, timeout: float = 30.0) -> http.client.HTTPSConnection:
        found = http.client.HTTPSConnection(NAME, self.port, timeout=timeout)
        plain = socket.create_connection(("127.0.0.1", self.port), timeout)
        found.sock = ssl.create_default_context(cafile=ca_file()).wrap_socket(plain, server_hostname=NAME)
        return found

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        connection = self.connection()
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.status, answer.read()
        connection.close()
        return said

    def listens(self) -> bool:
        try:
            return self.ask("GET", "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False


Program = Callable[[Front], tuple[list[str], list[str]]]


def nginx(front: Front) -> tuple[list[str], list[str]]:
    file = front.put("nginx.conf")
    whole = front.directory / "whole.conf"
    places = "".join(
        f"{kind}_temp_path {front.directory}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole.write_text(
        f"daemon off;\nmaster_process off;\npid {front.directory}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\n{places}include {file};\n}}\n"
    )
    command = ["nginx", "-e", "stderr", "-p", str(front.directory), "-c", str(whole)]
    return [*command, "-t"], command


def haproxy(front: Front) -> tuple[list[str], list[str]]:
    file = str(front.put("haproxy.cfg"))
    return ["haproxy", "-c", "-f", file], ["haproxy", "-db", "-f", file]


def caddy(front: Front) -> tuple[list[str], list[str]]:
    said = ["--adapter", "caddyfile", "--config", str(front.put("Caddyfile"))]
    return ["caddy", "validate", *said], ["caddy", "run", *said]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A node as docs/proxies.md has it: its certificate has the public name as well."""
    cluster = Cluster(1, tls=True, flags=["--http-hosts", NAME, "--proxies", "127.0.0.1"])
    put(cluster.directory, certificate("n1", hosts=("127.0.0.1", NAME)), "n1")
    with cluster:
        yield cluster


@contextmanager
def running(program: Program, front: Front) -> Iterator[None]:
    """The proxy, once it has found the node that is there."""
    if shutil.which(program.__name__) is None:
        pytest.skip(f"{program.__name__} is not installed")
    check, command = program(front)
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout + done.stderr
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(front.directory)},
    )  # fmt: skip
    try:
        wait_until(front.listens, "the proxy finds the node that is there")
        yield
    finally:
        process.terminate()
        process.wait(patient(30))


@contextmanager
def followed(front: Front) -> Iterator[http.client.HTTPResponse]:
    """The events, as they come."""
    connection = front.connection()
    headers = {"Accept": "text/event-stream", "Sec-Fetch-Site": "same-origin"}
    connection.request("GET", "/v1/events", headers=headers)
    with closing(connection), connection.getresponse() as stream:
        assert (stream.status, stream.getheader("Content-Type", "")[:17]) == (200, "text/event-stream")
        yield stream


@pytest.mark.parametrize("program", [nginx, haproxy, caddy])
def test_a_proxy_passes_requests_and_events_on(program: Program, node: Cluster, tmp_path: Path) -> None:
    front = Front(tmp_path, node.nodes[0].http_port)
    with running(program, front):
        for _ in range(6):  # also when it is the turn of one that is not
            assert front.ask("GET", "/v1/cluster")[0] == 200

        for _ in range(3):  # what a node cannot do for one caller leaves it there for the others
            status, said = front.ask("GET", f"/v1/cluster/log?after={2**53}")
            assert (status, json.loads(said)["code"]) == (503, "behind")
            assert front.ask("GET", "/v1/cluster")[0] == 200

        job = {"name": program.__name__, "trigger": {"manual": True}, "handler": {"shell": "true"}}
        path = f"/v1/namespaces/default/jobs/{job['name']}"
        with followed(front) as stream:
            wait_until(lambda: front.ask("PUT", path, job)[0] < 300, "a node takes a write")
            while not re.match(rb"data:.*" + program.__name__.encode(), line := stream.readline()):
                assert line, "the stream has ended"

        page, body = front.ask("GET", "/ui/")
        assert (page, b"<html" in body) == (200, True)


def test_who_has_too_many_connections_to_nginx_is_told_so(node: Cluster, tmp_path: Path) -> None:
    front = Front(tmp_path, node.nodes[0].http_port)
    front.replaced["limit_conn raftsched_connections 100;"] = "limit_conn raftsched_connections 1;"
    with running(nginx, front), followed(front):
        assert front.ask("GET", "/v1/cluster")[0] == 429


@pytest.mark.parametrize("program", [nginx, haproxy, caddy])
def test_a_body_that_is_too_large_is_answered(program: Program, node: Cluster, tmp_path: Path) -> None:
    """Also to a simple client, which reads no answer before it has sent everything."""
    front = Front(tmp_path, node.nodes[0].http_port)
    with running(program, front):
        for size in (3 << 20, 40 << 20):
            assert front.ask("POST", "/v1/jobs", "x" * size)[0] == 413
