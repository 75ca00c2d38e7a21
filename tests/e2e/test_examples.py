"""Every example of README and docs, as it is written, against three nodes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.routes import ROUTES
from raftsched.config.node import load
from raftsched.importers.documents import read_jobs
from tests.e2e.steps import wait_final
from tests.support.example_rows import rows
from tests.support.examples import (
    ELSEWHERE,
    PAGES_ELSEWHERE,
    ROOT,
    SHELL,
    SHOWN,
    Block,
    assigned,
    blocks,
    commands,
    elsewhere,
    fitted,
    inline_triggers,
    jobs_of,
    programs,
    put_files,
)
from tests.support.local_cluster import LocalCluster
from tests.support.patience import patient

pytestmark = pytest.mark.e2e

BLOCKS = blocks()
ROWS = {row.commands for row in rows((ROOT / "docs/runs.md").read_text())}  # tests/e2e/test_runs_by_example.py has them


def _shows_jobs(block: Block) -> bool:
    return block.language in ("json", "yaml") and not block.file and not block.text.startswith(SHOWN)


TO_RUN = [
    b
    for b in BLOCKS
    if b.language in SHELL
    and not b.text.startswith(SHOWN)
    and tuple(commands(b)) not in ROWS
    and b.page not in PAGES_ELSEWHERE
]
REPORT = {  # run again, it lasts until it is killed
    "trigger": {"cron": "0 2 * * 1-5", "timezone": "Europe/Madrid"},
    "handler": {"shell": "echo report; [ $RAFTSCHED_ATTEMPT = 1 ] || exec sleep 300"},
    "owner": "ana", "labels": {"team": "fin"},
}  # fmt: skip
HOLIDAYS = """BEGIN:VCALENDAR
BEGIN:VEVENT
DTSTART;VALUE=DATE:20271225
RRULE:FREQ=YEARLY
END:VEVENT
END:VCALENDAR
"""
SHOP = "name: tidy\ntrigger: {manual: true}\nhandler: {shell: 'true'}\nlabels: {app: shop}\n"
DKRON = [{"name": "a", "schedule": "@daily", "executor": "shell", "executor_config": {"command": "true"}}]


class Place:
    """A directory as the examples expect it, with the commands that they use, and a cluster with their jobs."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.ports = [node.http_port for node in cluster.nodes]
        binaries = directory / "bin"
        binaries.mkdir()
        curl = shutil.which("curl")
        self.has_curl = curl is not None
        scripts = {
            "raftsched": f'exec {sys.executable} -W error -m raftsched "$@"',
            # a refusal is to end the example; and what others answer is made up
            "curl": f'case "$*" in *dkron:8080*) cat dkron.json;; *) exec {curl} --fail-with-body -S "$@";; esac',
            "crontab": "echo '*/5 * * * * echo from cron'",
            "kubectl": "cat cronjob.yaml",
            # ./scripts/openapi-clients runs the real ones
            **dict.fromkeys(("oapi-codegen", "npx"), "grep -q openapi openapi.json"),
            "systemctl": 'for unit in units/backup.*; do echo "# /etc/systemd/system/$unit"; cat $unit; done',
        }
        for name, script in scripts.items():
            (binaries / name).write_text(f"#!/bin/sh\n{script}\n")
            (binaries / name).chmod(0o755)
        (directory / ".venv/bin").mkdir(parents=True)
        (directory / ".venv/bin/activate").write_text("")
        (directory / "dkron.json").write_text(json.dumps(DKRON))
        put_files(directory)
        (directory / "backup.crontab").write_text("*/5 * * * * echo backup\n")
        (directory / "shop" / "team").mkdir(parents=True)
        (directory / "shop" / "team" / "jobs.yaml").write_text(SHOP)
        (directory / "holidays.ics").write_text(HOLIDAYS)
        (directory / "password.txt").write_text("of nothing\n")
        (directory / "jobs.yaml").write_text(SHOP)
        shutil.copy(cluster.key_file, directory / "cluster.key")
        servers = ",".join(f"http://127.0.0.1:{port}" for port in self.ports)
        self.environment = {
            **os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "RAFTSCHED_SERVER": servers, "NO_COLOR": "1",
            "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(directory / "config"),
        }  # fmt: skip

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        reply = self.cluster.nodes[0].request(method, path, body)
        assert reply.status < 300, (path, reply.status, reply.body)
        return reply.json if reply.body else None

    def prepare(self) -> None:
        """What the examples speak of is there, with a run that has ended, and nothing is paused."""
        self.ask("POST", "/v1/cluster/resume", {})
        for node in self.cluster.nodes:
            self.ask("POST", f"/v1/nodes/{node.id}/undrain", {})
        path = "/v1/namespaces/billing/jobs/nightly-report"
        for name in ("/v1/namespaces/default/jobs/hello", path):
            assert self.cluster.nodes[0].request("DELETE", name).status in (200, 204, 404)
        self.ask("PUT", path, REPORT)
        self.put_secret()
        instance = str(self.ask("POST", f"{path}/run", {})["id"])
        node = self.cluster.nodes[0]
        self.cluster.wait("the run to be known", lambda: node.find(f"/v1/instances/{instance}"), 30)
        assert wait_final(self.cluster, node, instance)["state"] == "SUCCEEDED"

    def put_secret(self) -> None:
        for secret in ("billing/secrets/smtp", "default/secrets/broker", "default/secrets/results"):
            self.ask("PUT", f"/v1/namespaces/{secret}", {"value": "of nothing"})

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Runs it. A command that does not end is killed with all that it started, which would keep the pipes open."""
        with subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        ) as started:  # fmt: skip
            try:
                printed, said = started.communicate(timeout=patient(120))
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                pytest.fail(f"this does not end: {script}")
        return subprocess.CompletedProcess(script, started.returncode, printed, said)


@pytest.fixture(scope="module")
def place(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(cluster, tmp_path_factory.mktemp("place"))


@pytest.mark.parametrize("block", TO_RUN, ids=str)
def test_commands_do_what_they_say(place: Place, block: Block) -> None:
    wanted = [command for command in commands(block) if elsewhere(command) is None]
    if not wanted:
        return
    if any("curl" in command for command in wanted) and not place.has_curl:
        pytest.skip("there is no curl")
    place.prepare()
    given = ""  # what the lines before it have set
    for command in wanted:
        answered = command.replace(" --prune ", " --prune --yes ")  # nobody is there to be asked
        if name := assigned(command):
            answered += f"; echo ${name}"
        done = place.run(given + fitted(answered, place.ports))
        assert done.returncode in _expected(command), f"{block}: {command}\n{done.stdout}\n{done.stderr}"
        if name:
            given += f"{name}={done.stdout.strip()}; "


def _expected(command: str) -> tuple[int, ...]:
    if command.startswith("raftsched jobs diff") or (command.startswith("raftsched apply") and "--diff" in command):
        return (0, 1)  # 1: there are differences
    if command.startswith("raftsched jobs import"):
        return (0, 1)  # 1: something was refused, and said
    if command.startswith(("raftsched instances grep", "raftsched runs grep")):
        return (0, 1)  # 1: it is nowhere
    if command.startswith("raftsched doctor --config"):
        return (0, 1)  # 1: a check fails, for there is no such node
    return (0,)


@pytest.mark.parametrize("block", [b for b in BLOCKS if _shows_jobs(b)], ids=str)
def test_jobs_are_accepted(place: Place, block: Block) -> None:
    place.put_secret()
    if block.language == "json":
        jobs = jobs_of(block)
    else:
        jobs = [document.value for document in read_jobs(block.text.encode(), str(block))]
    for job in jobs:
        path = f"/v1/namespaces/{job.get('namespace', 'default')}/jobs/{job['name']}/compare"
        place.ask("POST", path, job)


def test_triggers_in_the_text_are_accepted(place: Place) -> None:
    found = list(inline_triggers())
    assert len(found) > 4
    for _, trigger in found:
        place.ask("POST", "/v1/schedules/preview", {"trigger": trigger})


def test_every_block_is_tried_or_named_as_one_that_is_not() -> None:
    for block in BLOCKS:
        # sql: tests/unit/importers/test_quartz.py
        known = (*SHELL, "json", "yaml", "ini", "toml", "python", "sql")
        assert block.file or block.language in known, (
            f"{block}: say in tests/support/examples.py how {block.language} is tried"
        )
    lines = [command for block in TO_RUN for command in commands(block)]
    for start, where in ELSEWHERE.items():
        assert any(line.startswith(start) for line in lines), f"{start!r} is in no example any more"
        assert not where.endswith(".py") or (ROOT / where).is_file(), where
    for page, where in PAGES_ELSEWHERE.items():
        assert (ROOT / page).is_file(), page
        assert (ROOT / where).is_file(), where


def test_every_resource_has_an_example_with_curl() -> None:
    curls = "\n".join(command for block in TO_RUN for command in commands(block) if "curl" in command)
    for route in ROUTES:
        parts = route.path.split("/")
        resource = "/".join(parts[1:3]) if parts[1] == "v1" else parts[1]
        if resource in ("livez", "docs", "v1/namespaces"):
            continue  # for machines, for browsers, and part of how jobs are named
        assert f"/{resource}" in curls, f"docs/api.md has no example with curl for /{resource}"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "toml"], ids=str)
def test_files_of_settings_are_taken(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text(block.text.replace("/etc/raftsched", str(tmp_path)))
    for name in re.findall(r'"/etc/raftsched/(\S+)"', block.text):
        (tmp_path / name).touch(0o600)  # keys and certificates are only looked for
    load({"id": "n1", "data": str(tmp_path)}, {}, file)


@pytest.mark.parametrize("block", programs(), ids=str)
def test_programs_with_a_client_run(place: Place, block: Block, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(fitted(block.text, place.ports))
    place.prepare()
    done = place.run(f"exec {sys.executable} -W error {program}")
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


def test_languages_that_others_try(place: Place) -> None:
    """Python examples have tests of their own; here they have to be Python at least."""
    for block in BLOCKS:
        if block.language == "python":
            compile(block.text, str(block), "exec", flags=0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT
