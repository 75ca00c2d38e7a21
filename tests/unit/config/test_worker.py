"""The configuration of a remote worker: where each value comes from, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from raftsched.client.servers import parse_servers
from raftsched.config.values import ConfigError
from raftsched.config.worker import WorkerConfig, build_worker, default_data, default_name, load_worker

SERVERS = tuple(parse_servers("http://n1:7401"))


def build(**settings: Any) -> WorkerConfig:
    return build_worker({"name": "w1", "data": "/w", **settings}, {}, servers=SERVERS)


def test_flags_win_over_variables_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text('name = "file"\nslots = 3\nqueues = ["a", "b"]\nserver = "http://file:7401"\n')
    environ = {"RAFTSCHED_NAME": "variable", "RAFTSCHED_SLOTS": "5", "HOME": "/home/x"}
    config = load_worker({"name": "flag", "queues": None}, environ, file, servers=SERVERS)
    assert (config.name, config.slots, config.queues) == ("flag", 5, ("a", "b"))
    assert [server.host for server in config.servers] == ["file"]


def test_what_is_not_said() -> None:
    config = build()
    assert (config.queues, config.namespaces, config.weight, config.grace_ms) == (None, None, 1, 10_000)
    assert config.servers == SERVERS
    assert build_worker({}, {}, servers=SERVERS).name == default_name()


def test_a_place_of_its_own_for_each_name() -> None:
    assert default_data("w1", {"STATE_DIRECTORY": "/var/lib/x:/y"}) == Path("/var/lib/x/workers/w1")
    assert default_data("w1", {"XDG_STATE_HOME": "/state"}) == Path("/state/raftsched/workers/w1")
    assert default_data("w1", {}).parts[-3:] == ("raftsched", "workers", "w1")


def test_the_token_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret-1\n")
    assert build(token_file=str(file)).token == "secret-1"
    file.write_text("two words\n")
    with pytest.raises(ConfigError, match="has no token"):
        build(token_file=str(file))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"name": "a/b"}, "is no name of a worker"),
        ({"name": "A"}, "is no name of a worker"),
        ({"slots": 0}, "slots must be"),
        ({"weight": 0}, "weight must be"),
        ({"queues": ""}, "queues names 0"),
        ({"queues": "a/b"}, "is not a queue"),
        ({"namespaces": ["A"]}, "is not a namespace"),
        ({"server": "ftp://n1"}, "is not a server address"),
        ({"server": "http://n1:7401/v1"}, "http://n1:7401/v1 has a path.* write http://n1:7401$"),
        ({"server": "https://n1,https://n2/ui/"}, "https://n2:443/ui has a path.* write https://n2:443$"),
        ({"labels": "disk"}, "has no ="),
        ({"executors": "perl"}, "name some of"),
        ({"token_file": "/nowhere"}, "cannot be read"),
    ],
)
def test_what_cannot_be_is_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build(**settings)


def test_a_server_has_no_path_wherever_it_is_said() -> None:
    """Every request would be answered 404, for ever."""
    with pytest.raises(ConfigError, match=r"write http://n1:7401$"):
        build_worker({"name": "w1", "data": "/w"}, {}, servers=tuple(parse_servers("n1/v1")))
    assert build(server="http://n2:7401/").servers == tuple(parse_servers("n2"))


def test_without_a_server() -> None:
    with pytest.raises(ConfigError, match="server is missing"):
        build_worker({"name": "w1", "data": "/w"}, {})
