"""docs/command-line.md, "Seven tasks": each is done as it stands there, with nothing but the helps to know it from."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.steps import ask, command
from tests.support.examples import ROOT
from tests.support.local_cluster import LocalCluster
from tests.support.patience import patient

PAGE = (ROOT / "docs/command-line.md").read_text()
SECTION = PAGE.partition("\n## Seven tasks\n")[2].partition("\n## ")[0]
TASKS = {
    heading: tuple(block.strip().splitlines())
    for heading, block in re.findall(r"^### (.+?)\n.*?^```\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
}
# What the steps show together, of what the person came for.
SHOWN = {
    "Find why last night's report failed": ("no data for 2026-09", "exit code 3"),
    "Run it again with another month, and watch": ("report of 2026-10",),
    "Stop everything of a tenant": ("paused: 1", "asked to end: 1"),
    "Move a crontab": ("2 imported, 0 refused",),
    "See what is due tonight": ("tonight",),
    "Find who deleted a job": ("jobs_delete", "old-job"),
    "Follow a run that is under way": ("report of 2026-10", "sent"),
}
_OWN = {"acme"}  # words that the person brings along
_REPORT = 'test "$1" != 2026-09 || { echo "no data for $1" >&2; exit 3; }; echo "report of $1"; sleep 1; echo sent'
_CRONTAB = "15 3 * * * /usr/bin/true\n0 4 * * 1 /usr/bin/false\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1) as cluster:
        node = cluster.nodes[0]
        report = ("jobs", "create", "nightly-report", "-N", "billing", "--manual", "--template")
        ask(node, *report, "--params", '{"month": "2026-09"}', "--", "sh", "-c", _REPORT, "sh", "{params.month}")
        ask(node, "jobs", "create", "sync", "-N", "acme", "--manual", "--shell", "sleep 100")
        ask(node, "jobs", "create", "tonight", "--at", "2030-01-08T03:00:00Z", "--shell", "true")
        ask(node, "jobs", "create", "old-job", "--manual", "--shell", "true")
        ask(node, "jobs", "delete", "old-job")
        yield cluster


def before(cluster: LocalCluster, task: str) -> None:
    """What was so when the person came."""
    node = cluster.nodes[0]
    if task.startswith("Find why"):
        assert command(node.url, "jobs", "run", "billing/nightly-report", "--wait").exit_code == 3
    elif task.startswith("Stop"):
        ask(node, "jobs", "run", "acme/sync")
    elif task.startswith("Follow"):
        ask(node, "jobs", "run", "billing/nightly-report", "--params", '{"month": "2026-10"}')


def test_there_are_seven_of_four_steps_at_most() -> None:
    assert TASKS.keys() == SHOWN.keys()
    assert {task: len(steps) for task, steps in TASKS.items() if not 1 <= len(steps) <= 4} == {}


def known(step: str, helps: str) -> list[str]:
    """Returns the words of a command that no help said before."""
    words = step.rpartition("raftsched ")[2].replace(" - ", " ").split(" ")
    said = [word for word in words if re.fullmatch(r"--?[a-z-]+|[a-z_]+", word) and word not in _OWN]
    return [word for word in said if not re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", helps)]


@pytest.mark.parametrize("task", SHOWN)
def test_a_task_is_done_by_its_steps(cluster: LocalCluster, task: str, tmp_path: Path) -> None:
    before(cluster, task)
    (tmp_path / "crontab").write_text(f"#!/bin/sh\ncat <<'END'\n{_CRONTAB}END\n")
    (tmp_path / "raftsched").write_text(f'#!/bin/sh\nexec {sys.executable} -m raftsched.cli.main "$@"\n')
    for program in ("crontab", "raftsched"):
        (tmp_path / program).chmod(0o755)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")},
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "RAFTSCHED_SERVER": cluster.nodes[0].url,
        "XDG_CONFIG_HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    helps, printed = "", ""
    for step in TASKS[task]:
        assert step == "raftsched --help" or known(step, helps) == [], step
        done = subprocess.run(
            ["bash", "-c", step],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=patient(100),
            check=False,
        )
        assert done.returncode == 0, (step, done.stdout, done.stderr)
        if step.endswith("--help"):
            helps += done.stdout
        else:
            printed += done.stdout + done.stderr
    assert [text for text in SHOWN[task] if text not in printed] == [], printed
