"""The cluster key is changed as docs/secrets.md says: node by node, while jobs run that need what it seals."""

from __future__ import annotations

import http.client
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from raftsched.cli.main import cli
from raftsched.embedded.node import Node
from raftsched.security.keyring import KEY_FILE, Keyring, new_key, read_keyring
from raftsched.testing import RunningCluster, running_cluster
from tests.support.patience import wait_until

JOB = {
    "trigger": {"every": "1s"},
    "handler": {"shell": 'test "$PW" = "kept"', "env": {"PW": {"$secret": "pw"}}},
    "retry": {"delays": []},
}


def ask(node: Node, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The status and the JSON."""
    connection = http.client.HTTPConnection(node.url.removeprefix("http://"), timeout=30)
    try:
        raw = None if body is None else json.dumps(body)
        connection.request(method, path, raw, {"Content-Type": "application/json"})
        response = connection.getresponse()
        said = response.read()
        return response.status, json.loads(said) if said else None
    finally:
        connection.close()


def put_keys(file: Path, *keys: bytes) -> None:
    """The file as a whole, as configuration management does."""
    beside = file.with_suffix(".new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(b"# keys\n" + b"\n".join(keys) + b"\n")
    beside.replace(file)


def succeeded(cluster: RunningCluster) -> int:
    """Runs so far; all of them could read the secret."""
    node = cluster.leader()
    assert ask(node, "GET", "/v1/instances?state=FAILED")[1]["items"] == []
    return len(ask(node, "GET", "/v1/instances?state=SUCCEEDED&limit=1000")[1]["items"])


def reseal(cluster: RunningCluster) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["--server", cluster.servers, "secrets", "reseal"])
    return result.exit_code, result.output


def test_a_key_is_changed_without_a_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / KEY_FILE
    with running_cluster(3, directory=tmp_path) as cluster:
        old, new = read_keyring(file).first, new_key()
        node = cluster.leader()
        assert ask(node, "PUT", "/v1/namespaces/default/secrets/pw", {"value": "kept"})[0] == 201
        assert ask(node, "POST", "/v1/webhooks", {"name": "ops", "url": "http://127.0.0.1:9/"})[0] == 201
        assert ask(node, "POST", "/v1/jobs", JOB)[0] == 201
        ran = 0
        for number, keys in enumerate(((old, new), (new, old), (new,))):
            put_keys(file, *keys)
            if keys == (new,):
                code, said = reseal(cluster)
                assert (code, "key {}: 2".format(*Keyring(new).ids()) in said) == (0, True), said
                assert "done" in said
                assert reseal(cluster)[1].startswith("sealed anew with the key {}: 0\n".format(*Keyring(new).ids()))
            for node in cluster.nodes:
                cluster.stop(node)
                cluster.start(node)
            before = ran
            wait_until(lambda before=before: succeeded(cluster) > before + 2, f"runs after change {number + 1}")  # type: ignore[misc]
            ran = succeeded(cluster)
        put_keys(file, new_key())
        leader = cluster.leader()
        node = next(one for one in cluster.nodes if one is not leader)
        cluster.stop(node)
        cluster.run(cluster.nodes.start(node))
        wait_until(lambda: "cluster's key" in caplog.text, "it to be refused")
        assert ask(node, "GET", "/readyz")[0] == 503
