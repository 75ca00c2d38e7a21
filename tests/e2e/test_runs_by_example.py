"""The examples of docs/runs.md, pasted as they are: each has to print what it says."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.example_rows import Outcome, Row, Terminal, failure, listening, rows
from tests.support.examples import ROOT, put_files
from tests.support.local_cluster import LocalCluster

pytestmark = pytest.mark.e2e

ROWS = rows((ROOT / "docs/runs.md").read_text())
AT_ONE_TIME = 3  # rows have jobs of their own, and mostly wait
Outcomes = dict[Row, "Future[Outcome]"]


def _environment(directory: Path) -> dict[str, str]:
    binaries = directory / "bin"
    binaries.mkdir()
    (binaries / "raftsched").write_text(f'#!/bin/sh\nexec {sys.executable} -W error -m raftsched "$@"\n')
    (binaries / "raftsched").chmod(0o755)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")},
        "PATH": f"{binaries}:{os.environ['PATH']}", "NO_COLOR": "1", "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(directory / "config"),
    }  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """What the rows that are tested print, beside one node. Rows that touch the whole cluster come before others."""
    directory = tmp_path_factory.mktemp("terminal")
    put_files(directory)
    chosen = [item.callspec.params["row"] for item in request.session.items if "outcomes" in item.fixturenames]
    alone = [row for row in chosen if any(command.startswith("raftsched cluster") for command in row.commands)]
    with (
        LocalCluster(1) as cluster,
        listening(directory / "listen.py") as ports,
        ThreadPoolExecutor(AT_ONE_TIME) as threads,
    ):
        environment = {**_environment(directory), "RAFTSCHED_SERVER": cluster.nodes[0].url}
        addresses = {
            "127.0.0.1:7401": f"127.0.0.1:{cluster.nodes[0].http_port}",
            "127.0.0.1:8080": f"127.0.0.1:{ports[0]}",
            "127.0.0.1:2525": f"127.0.0.1:{ports[1]}",
        }
        terminal = Terminal(directory, environment, addresses)
        pasted: Outcomes = {}
        for row in alone:
            pasted[row] = Future()
            pasted[row].set_result(terminal.paste(row))
        for row in chosen:
            if row not in pasted:
                pasted[row] = threads.submit(terminal.paste, row)
        yield pasted


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_shows_what_it_says(outcomes: Outcomes, row: Row) -> None:
    wrong = failure(row, outcomes[row].result())
    assert wrong is None, wrong
