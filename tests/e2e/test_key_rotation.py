"""The cluster key is changed as docs/secrets.md says: node by node, while jobs run that need what it seals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftsched.cli.main import cli
from raftsched.security.keyring import Keyring, new_key, read_keyring
from tests.support.cluster import Cluster

pytestmark = pytest.mark.e2e

JOB = {
    "trigger": {"every": "1s"},
    "handler": {"shell": 'test "$PW" = "kept"', "env": {"PW": {"$secret": "pw"}}},
    "retry": {"delays": []},
}


def put_keys(cluster: Cluster, *keys: bytes) -> None:
    """The file as a whole, as configuration management does."""
    beside = cluster.key_file.with_suffix(".new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(b"# keys\n" + b"\n".join(keys) + b"\n")
    beside.replace(cluster.key_file)


def restart_each(cluster: Cluster) -> None:
    for node in cluster.nodes:
        assert node.terminate() == 0
        node.start()
        cluster.wait_ready()


def succeeded(cluster: Cluster) -> int:
    """Runs so far; all of them could read the secret."""
    node = cluster.leader()
    assert node.get("/v1/instances?state=FAILED")["items"] == []
    return len(node.get("/v1/instances?state=SUCCEEDED&limit=1000")["items"])


def reseal(cluster: Cluster) -> tuple[int, str]:
    servers = ",".join(f"http://127.0.0.1:{node.http_port}" for node in cluster.nodes)
    result = CliRunner().invoke(cli, ["--server", servers, "secrets", "reseal"])
    return result.exit_code, result.output


def test_a_key_is_changed_without_a_stop(tmp_path: Path) -> None:
    with Cluster(3, directory=tmp_path) as cluster:
        old, new = read_keyring(cluster.key_file).first, new_key()
        node = cluster.leader()
        assert node.request("PUT", "/v1/namespaces/default/secrets/pw", {"value": "kept"}).status == 201
        hook = {"name": "ops", "url": "http://127.0.0.1:9/"}
        assert node.request("POST", "/v1/webhooks", hook).status == 201
        assert node.request("POST", "/v1/jobs", JOB).status == 201
        ran = 0
        for number, keys in enumerate(((old, new), (new, old), (new,))):
            put_keys(cluster, *keys)
            if keys == (new,):
                code, said = reseal(cluster)
                assert (code, "key {}: 2".format(*Keyring(new).ids()) in said) == (0, True), said
                assert "done" in said
                assert reseal(cluster)[1].startswith("sealed anew with the key {}: 0\n".format(*Keyring(new).ids()))
            restart_each(cluster)
            before = ran
            cluster.wait(f"runs after change {number + 1}", lambda before=before: succeeded(cluster) > before + 2)
            ran = succeeded(cluster)
        put_keys(cluster, new_key())
        node = cluster.followers()[0]
        assert node.terminate() == 0
        node.start()
        cluster.wait("to be refused", lambda: "cluster's key" in node.log.read_text())
        assert not node.ready()
