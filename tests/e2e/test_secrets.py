"""Secrets in real runs of real nodes: what the runs get, and that nothing else ever shows it."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from raftsched.api.routes import ROUTES
from tests.e2e.steps import wait_final
from tests.support.local_cluster import LocalCluster, LocalNode

pytestmark = pytest.mark.e2e

FUNCTIONS = """
import os

def speak(token):
    print("got", token)
    if os.environ["MODE"] == "fail":
        raise ValueError(f"no luck with {token}, nor with {os.environ['PW']}")
    return {"said": token}
"""
SCRIPT = """
import json, os, pathlib, sys
pathlib.Path(sys.argv[1]).write_text(json.dumps([os.environ["PW"], os.environ["RAFTSCHED_PARAMS"]]))
print("the password is", os.environ["PW"][:5], end="", flush=True)
print(os.environ["PW"][5:])
print(os.environ["PW"], file=sys.stderr)
lines = pathlib.Path("/proc").glob("[0-9]*/cmdline")
seen = []
for line in lines:
    try:
        seen.append(line.read_bytes())
    except OSError:
        pass
pathlib.Path(sys.argv[1] + ".cmdline").write_bytes(b" ".join(seen))
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture
def received() -> Iterator[tuple[str, list[tuple[dict[str, str], bytes]]]]:
    """The address of a server, and the headers and bodies that it was sent."""
    got: list[tuple[dict[str, str], bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((dict(self.headers.items()), body))
            answer = b"you said " + body
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def put(node: LocalNode, name: str, value: str) -> None:
    reply = node.request("PUT", f"/v1/namespaces/billing/secrets/{name}", {"value": value})
    assert reply.status in (200, 201), reply.body


def ran(cluster: LocalCluster, node: LocalNode, job: dict[str, Any], params: Any = None) -> tuple[dict[str, Any], str]:
    """The instance of one run of the job, and what it printed."""
    reply = node.request("PUT", f"/v1/namespaces/billing/jobs/{job['name']}", job)
    assert reply.status in (200, 201), reply.body
    body = {} if params is None else {"params": params}
    reply = node.request("POST", f"/v1/namespaces/billing/jobs/{job['name']}/run", body)
    assert reply.status == 202, reply.body
    row = wait_final(cluster, node, reply.json["id"])
    output = node.request("GET", f"/v1/instances/{row['id']}/output")
    return row, output.body.decode() if output.status == 200 else ""


def test_runs_get_their_values_and_nothing_shows_them(
    tmp_path: Path, received: tuple[str, list[tuple[dict[str, str], bytes]]]
) -> None:
    url, got = received
    first, second, token = (f"{what}-{secrets.token_hex(12)}" for what in ("first", "second", "token"))
    library = tmp_path / "library"
    library.mkdir()
    (library / "speaking.py").write_text(FUNCTIONS)
    script, told = tmp_path / "script.py", tmp_path / "told.json"
    script.write_text(SCRIPT)
    manual = {"trigger": {"manual": True}, "params": {"tokens": [{"$secret": "billing/token"}]}}
    command = {
        **manual,
        "name": "command",
        "handler": {
            "exec": [sys.executable, "-S", str(script), str(told)],
            "env": {"PW": {"$secret": "smtp"}, "CODE": "0"},
        },
    }
    with LocalCluster(3, pythonpath=library, directory=tmp_path / "nodes") as cluster:
        node = cluster.followers()[0]
        put(node, "smtp", first)
        put(cluster.leader(), "token", token)
        row, output = ran(cluster, node, command)
        assert (row["state"], json.loads(told.read_text())) == (
            "SUCCEEDED",
            [first, json.dumps({"tokens": [token]}, separators=(",", ":"))],
        )
        assert output == "the password is ***\n***\n" or sorted(output.splitlines()) == sorted(
            ["the password is ***", "***"]
        )
        put(node, "smtp", second)
        failing = {**command, "handler": {**command["handler"], "env": {"PW": {"$secret": "smtp"}, "CODE": "3"}}}
        row, _ = ran(cluster, node, failing)
        assert json.loads(told.read_text())[0] == second
        assert (row["state"], row["exit_code"]) == ("FAILED", 3)
        assert "***" in row["error"]

        asked = {
            **manual,
            "name": "asked",
            "handler": {
                "http": {
                    "url": url,
                    "method": "POST",
                    "headers": {"Authorization": {"$secret": "token"}},
                    "body": {"$secret": "smtp"},
                }
            },
        }
        row, output = ran(cluster, node, asked)
        assert (row["state"], output) == ("SUCCEEDED", "you said ***")
        headers, body = got[-1]
        assert (headers["Authorization"], body) == (token, second.encode())

        called = {
            "name": "called",
            "trigger": {"manual": True},
            "params": {"token": {"$secret": "token"}},
            "handler": {"python": "speaking:speak", "env": {"MODE": "well", "PW": {"$secret": "smtp"}}},
        }
        row, output = ran(cluster, node, called)
        assert (row["state"], output, row["result"]) == ("SUCCEEDED", "got ***\n", {"said": "***"})
        called["handler"] = {"python": "speaking:speak", "env": {"MODE": "fail", "PW": {"$secret": "smtp"}}}
        row, output = ran(cluster, node, called)
        assert row["state"] == "FAILED"
        assert "no luck with ***, nor with ***" in row["error"]
        assert output.startswith("got ***\n")
        row, output = ran(cluster, node, called, {"token": "of no secret"})
        assert output.startswith("got of no secret\n")

        assert node.request("DELETE", "/v1/namespaces/billing/secrets/token").status == 409
        assert node.request("DELETE", "/v1/namespaces/billing/secrets/token?force=true").status == 204
        reply = node.request("POST", "/v1/namespaces/billing/jobs/asked/run", {})
        gone = wait_final(cluster, node, reply.json["id"])
        assert (gone["state"], gone["error"]) == ("FAILED", "the secret billing/token does not exist any more")

        hidden = [value.encode() for value in (first, second, token)]
        for each in cluster.nodes:
            for path, raw in answers(each, row):
                assert not any(value in raw for value in hidden), path
    assert not any(value in (tmp_path / "told.json.cmdline").read_bytes() for value in hidden)
    for file in (tmp_path / "nodes").rglob("*"):
        if file.is_file():
            assert not any(value in file.read_bytes() for value in hidden), file
    for each in ("n1", "n2", "n3"):
        assert (tmp_path / "nodes" / each).stat().st_mode & 0o777 == 0o700


def answers(node: LocalNode, row: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    """Of every GET that the API knows and that ends by itself."""
    for route in ROUTES:
        if route.method != "GET" or route.operation.streams:
            continue
        path = (
            route.path.replace("/secrets/{name}", "/secrets/smtp")
            .replace("{ns}", "billing")
            .replace("{name}", "called")
        )
        path = path.replace("/jobs/{id}", f"/jobs/{row['job_id']}").replace(
            "/instances/{id}", f"/instances/{row['id']}"
        )
        reply = node.request("GET", path.replace("{id}", "n1"))
        yield path, reply.body + str(reply.headers).encode()


def test_without_a_key_they_lie_as_they_are_and_work() -> None:
    with LocalCluster(1, insecure_raft=True) as cluster:
        lie_as_they_are(cluster, cluster.leader())


def lie_as_they_are(cluster: LocalCluster, node: LocalNode) -> None:
    put(node, "plain", "as it is")
    assert node.get("/v1/namespaces/billing/secrets/plain")["sealed"] is False
    job = {
        "name": "plain",
        "trigger": {"manual": True},
        "handler": {"shell": 'test "$PW" = "as it is"', "env": {"PW": {"$secret": "plain"}}},
    }
    row, _ = ran(cluster, node, job)
    assert row["state"] == "SUCCEEDED", row
