"""`raftsched worker`: what is said before it works."""

from __future__ import annotations

import re

from raftsched.embedded.worker_process import TOKEN_FROM
from tests.unit.cli.house import run


def test_the_help_has_each_way_to_say_a_token_that_a_refused_worker_is_told() -> None:
    text = " ".join(run("worker", "--help").stdout.split())
    ways = re.findall(r"[\w-]{4,}", TOKEN_FROM)
    assert ways == ["--token-file", "RAFTSCHED_TOKEN", "--token"]
    for way in ways:
        assert re.search(rf"{way}\b", text), way


def test_a_server_with_a_path_ends_it_at_once() -> None:
    result = run("worker", "--server", "http://127.0.0.1:9/v1", "--name", "w1", "--data", "/nowhere")
    assert result.exit_code == 1
    assert result.stderr == (
        "raftsched: server: http://127.0.0.1:9/v1 has a path, and nodes are asked without one; "
        "write http://127.0.0.1:9\n"
    )
