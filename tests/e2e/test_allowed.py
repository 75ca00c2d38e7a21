"""A node whose operator says what jobs may touch: what is refused waits and says why, or fails with it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.steps import create, run, wait_final
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two directories, the first of which jobs may use; a link leads from it to the second."""
    root = tmp_path_factory.mktemp("places")
    (root / "in").mkdir()
    (root / "out").mkdir()
    (root / "in/link").symlink_to(root / "out")
    return root


@pytest.fixture(scope="module")
def restricted(places: Path) -> Iterator[LocalCluster]:
    allowed = {"executors": ["exec", "python", "http"], "exec_allow": ["/bin/*"], "cwd_allow": [str(places / "in")]}
    with LocalCluster(1, **allowed, python_allow=["math"], env_allow=["APP_*"], http_deny=["loopback"]) as cluster:
        cluster.wait("a session", lambda: cluster.nodes[0].get("/v1/nodes/n1")["session"])
        yield cluster


def job(handler: dict[str, Any]) -> dict[str, Any]:
    return {"trigger": {"manual": True}, "handler": handler}


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        ({"shell": "id"}, 'No node has the handler "shell"'),
        ({"exec": ["/usr/bin/id"]}, "exec_allow names /bin/*"),
        ({"exec": ["id"]}, "a program is named by its absolute path"),
        ({"exec": ["/bin/../usr/bin/id"]}, "a program is named by its absolute path"),
        ({"exec": ["/bin/echo"], "cwd": "/"}, "cwd_allow names"),
        ({"python": "os:system"}, "python_allow names math"),
        ({"exec": ["/bin/echo"], "env": {"LD_PRELOAD": "/tmp/x.so"}}, 'no variable "LD_PRELOAD" from a job, whatever'),
        (
            {"exec": ["/bin/echo"], "env": {"https_proxy": "x"}},
            'no variable "https_proxy" from a job: env_allow',
        ),
        ({"python": "math:sqrt", "env": {"VIMINIT": "x"}}, 'no variable "VIMINIT" from a job'),
        ({"http": {"url": "http://127.0.0.1:1/"}}, "http_deny names loopback"),
        ({"http": {"url": "http://0x7f000001:1/"}}, "http_deny names loopback"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_no_node_would_start_waits_and_says_why(
    restricted: LocalCluster, handler: dict[str, Any], words: str
) -> None:
    node = restricted.nodes[0]
    instance = run(node, create(node, job(handler))["id"])
    told = node.get(f"/v1/instances/{instance}/explain")
    assert told["waiting_for"]["reason"] == "no_eligible_node", told
    assert words in told["waiting_for"]["text"], told


def test_names_and_links_are_followed_where_it_runs(restricted: LocalCluster, places: Path) -> None:
    node = restricted.nodes[0]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        port = listening.getsockname()[1]
        instance = run(node, create(node, job({"http": {"url": f"http://localhost:{port}/"}}))["id"])
        ended = wait_final(restricted, node, instance)
        assert ended["state"] == "FAILED"
        assert "http_deny names loopback" in ended["error"]
        with pytest.raises(BlockingIOError):
            listening.accept()
    instance = run(node, create(node, job({"exec": ["/bin/pwd"], "cwd": str(places / "in/link")}))["id"])
    ended = wait_final(restricted, node, instance)
    assert ended["state"] == "FAILED"
    assert "cwd_allow names" in ended["error"]


@pytest.mark.parametrize(
    "handler",
    [{"exec": ["/bin/pwd"], "env": {"APP_DAY": "3"}}, {"python": "math:sqrt"}],
    ids=["exec", "python"],
)
def test_what_is_allowed_runs(restricted: LocalCluster, places: Path, handler: dict[str, Any]) -> None:
    node = restricted.nodes[0]
    given = {**job({**handler, "cwd": str(places / "in")})}
    if "python" in handler:
        given["params"] = {}
    ended = wait_final(restricted, node, run(node, create(node, given)["id"]))
    # sqrt takes its argument by place: that it is called, and says so, is what counts
    assert ended["state"] == ("SUCCEEDED" if "exec" in handler else "FAILED")
    assert "allow" not in (ended["error"] or "")


def test_a_node_shows_its_rules(restricted: LocalCluster) -> None:
    shown = restricted.nodes[0].get("/v1/nodes/n1")
    assert shown["handlers"] == ["exec", "python", "http"]
    assert shown["allowed"]["exec_allow"] == ["/bin/*"]
    assert shown["allowed"]["http_deny"] == ["loopback"]
    assert shown["allowed"]["env_allow"] == ["APP_*"]
