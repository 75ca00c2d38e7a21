"""examples/toolbox: the commands of its files, run as those who read the files run them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import raftsched
from raftsched.client.encoding import encode
from raftsched.testing import RunningCluster, running_cluster
from tests.support.patience import patient

ROOT = Path(__file__).parents[3]
BOX = ROOT / "examples" / "toolbox"
JOBS = (BOX / "jobs" / "shop.yaml").read_text()
BROKEN = "name: broken\nnamespace: shop\ntrigger: {cron: never}\nhandler: {shell: ':'}\nlabels: {repository: shop}\n"
TERRAFORM = shutil.which("terraform")
Secrets = Mapping[str, str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[RunningCluster, Secrets]]:
    """A cluster that wants tokens, with those that docs/toolbox.md has made, under the names of the files."""
    with running_cluster(1) as found:
        page = (ROOT / "docs" / "toolbox.md").read_text()
        made = {"admin": ["admin", "--role", "admin"]}
        for command in re.findall(r"^raftsched tokens create (.*)$", page, re.MULTILINE):
            made["JOBS_EDITOR" if "editor" in command else "JOBS_VIEWER"] = command.split()
        environment = {**os.environ, "RAFTSCHED_SERVER": found.servers}
        secrets = {
            name: _cli(["tokens", "create", *command, "-o", "name"], environment).stdout.strip()
            for name, command in made.items()
        }
        assert set(secrets) == {"admin", "JOBS_VIEWER", "JOBS_EDITOR"}
        asyncio.run(_require_tokens(found.servers, secrets["admin"]))
        yield found, secrets


async def _require_tokens(servers: str, secret: str) -> None:
    async with raftsched.AsyncClient(servers, token=secret) as admin:
        await admin.transport.send("PUT", "/v1/cluster/access", body=encode({"required": True}))


def _cli(args: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "raftsched", *args], env=environment, capture_output=True, text=True, check=False,
        timeout=patient(120),
    )  # fmt: skip


class Place:
    """A checkout of the repository with the jobs, on a machine of GitHub or GitLab."""

    def __init__(self, directory: Path, cluster: RunningCluster, secrets: Secrets) -> None:
        self.directory, self.secrets = directory, secrets
        binaries = directory / "bin"
        binaries.mkdir()
        for name, script in (
            ("raftsched", f'exec {sys.executable} -W error -m raftsched "$@"'),
            ("pip", "echo pip $*"),
        ):
            (binaries / name).write_text(f"#!/bin/sh\n{script}\n")
            (binaries / name).chmod(0o755)
        self.environment = {
            "PATH": f"{binaries}:{os.environ['PATH']}", "RAFTSCHED_SERVER": cluster.servers, "PYTHONPATH": str(ROOT),
            "HOME": str(directory), "LC_ALL": "C.UTF-8",
        }  # fmt: skip
        (directory / "jobs").mkdir()

    def run(self, script: str, shell: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*shell, "-c", script], cwd=self.directory, env={**self.environment, **environment}, text=True,
            capture_output=True, check=False, timeout=patient(240),
        )  # fmt: skip

    def jobs(self) -> dict[str, Any]:
        environment = {**self.environment, "RAFTSCHED_TOKEN": self.secrets["admin"]}
        items = json.loads(_cli(["jobs", "list", "--all", "-o", "json"], environment).stdout)["items"]
        return {job["name"]: job for job in items}


@pytest.fixture
def place(tmp_path: Path, cluster: tuple[RunningCluster, Secrets]) -> Iterator[Place]:
    found = Place(tmp_path, *cluster)
    yield found
    everything = {**found.environment, "RAFTSCHED_TOKEN": found.secrets["admin"]}
    assert _cli(["jobs", "delete", "--every-job"], everything).returncode == 0


def github(place: Place, job: str) -> subprocess.CompletedProcess[str]:
    """Runs the steps of a job, each in a bash of its own, until one fails."""
    flow = yaml.safe_load((BOX / "github.yml").read_text())
    found = flow["jobs"][job]
    said = {**flow["env"], **found["env"]}
    assert said.pop("RAFTSCHED_SERVER") == "${{ vars.RAFTSCHED_SERVER }}"
    (name, text) = said.popitem()
    secret = re.fullmatch(r"\$\{\{ secrets\.(\w+) \}\}", text)
    assert secret is not None
    printed = ""
    for step in (step["run"] for step in found["steps"] if "run" in step):
        done = place.run(step, ["bash", "-e"], **{name: place.secrets[secret[1]]})
        printed += done.stdout
        if done.returncode:
            break
    return subprocess.CompletedProcess(job, done.returncode, printed, done.stderr)


def gitlab(place: Place, job: str) -> subprocess.CompletedProcess[str]:
    """Runs the lines of a job in one shell, up to the first that fails. A request sees no protected variable."""
    flow = yaml.safe_load((BOX / "gitlab-ci.yml").read_text())
    lines = [*flow["default"]["before_script"], *flow[job]["script"]]
    names = ["JOBS_VIEWER"] if job == "show" else ["JOBS_VIEWER", "JOBS_EDITOR"]
    return place.run("\n".join(lines), ["sh", "-e"], **{name: place.secrets[name] for name in names})


@pytest.mark.parametrize("ci", [github, gitlab])
@pytest.mark.slow
def test_a_request_shows_and_main_applies(place: Place, ci: Any) -> None:
    file = place.directory / "jobs" / "shop.yaml"
    file.write_text(JOBS)
    done = ci(place, "show")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert "+name: tidy" in done.stdout.replace("+ ", "+")
    assert "would be created" in done.stdout
    assert place.jobs() == {}
    assert ci(place, "apply").returncode == 0
    before = place.jobs()
    assert {name: job["owner"] for name, job in before.items()} == {"tidy": "ana", "report": "ben"}

    assert ci(place, "show").returncode == 0  # nothing would change
    assert ci(place, "apply").returncode == 0
    assert place.jobs() == before

    file.write_text(JOBS.partition("---\n")[0].replace("H 3", "H 4"))
    done = ci(place, "show")
    assert done.returncode == 0
    assert "would be deleted" in done.stdout
    assert "would be changed" in done.stdout
    assert ci(place, "apply").returncode == 0
    assert [(name, job["revision"]) for name, job in place.jobs().items()] == [("tidy", 2)]

    file.write_text(f"{JOBS}---\n{BROKEN}")
    for job in ("show", "apply"):
        done = ci(place, job)
        assert 1 <= done.returncode <= 3, done.stdout
        assert "/trigger/cron" in done.stdout + done.stderr
    assert list(place.jobs()) == ["tidy"]


def test_what_a_request_has_cannot_apply(place: Place) -> None:
    (place.directory / "jobs" / "shop.yaml").write_text(JOBS)
    done = place.run("raftsched jobs apply -f jobs/", ["sh", "-e"], RAFTSCHED_TOKEN=place.secrets["JOBS_VIEWER"])
    assert done.returncode == 5
    other = JOBS.replace("namespace: shop", "namespace: hr")
    (place.directory / "jobs" / "shop.yaml").write_text(other)
    done = place.run("raftsched jobs apply -f jobs/", ["sh", "-e"], RAFTSCHED_TOKEN=place.secrets["JOBS_EDITOR"])
    assert done.returncode == 5
    assert place.jobs() == {}


@pytest.mark.slow
@pytest.mark.skipif(TERRAFORM is None, reason="there is no terraform")
def test_terraform_applies_changes_and_destroys(place: Place) -> None:
    shutil.copy(BOX / "terraform" / "main.tf", place.directory)
    file = place.directory / "jobs.yaml"
    file.write_text(JOBS)
    lines = re.findall(
        r"^(terraform (?:init|apply|destroy).*)$", (ROOT / "docs" / "toolbox.md").read_text(), re.MULTILINE
    )
    init, apply, destroy = (re.sub(r"(?<=server=)\S+", '"$RAFTSCHED_SERVER"', line) for line in lines)

    def terraform(command: str) -> str:
        own = {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "RAFTSCHED_TOKEN": place.secrets["JOBS_EDITOR"]}
        done = place.run(f"{command} -no-color -input=false", ["sh", "-e"], **own)
        assert done.returncode in ((0, 2) if "-detailed-exitcode" in command else (0,)), done.stdout + done.stderr
        return f"{done.returncode} {done.stdout}"

    terraform(init)
    terraform(f"{apply} -auto-approve")
    before = place.jobs()
    assert set(before) == {"tidy", "report"}
    plan = apply.replace("terraform apply", "terraform plan -detailed-exitcode")
    assert terraform(plan).startswith("0 ")  # nothing to do
    file.write_text(JOBS.replace("H 3", "H 4"))
    assert terraform(plan).startswith("2 ")
    terraform(f"{apply} -auto-approve")
    after = place.jobs()
    assert {name: job["id"] for name, job in after.items()} == {name: job["id"] for name, job in before.items()}
    assert (after["tidy"]["revision"], after["report"]["revision"]) == (2, 1)
    assert place.secrets["JOBS_EDITOR"] not in (place.directory / "terraform.tfstate").read_text()
    terraform(f"{destroy} -auto-approve")
    assert place.jobs() == {}


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq")
def test_the_catalog_has_each_job_of_its_owner(place: Place) -> None:
    long = BROKEN.replace("broken", "x" * 80).replace("cron: never", "manual: true")
    (place.directory / "jobs" / "shop.yaml").write_text(f"{JOBS}---\n{long}")
    assert gitlab(place, "apply").returncode == 0
    shutil.copy(BOX / "catalog.jq", place.directory)
    page = (ROOT / "docs" / "toolbox.md").read_text()
    by_owner, catalog = re.findall(r"^(raftsched jobs list .*jq .*)$", page, re.MULTILINE)
    viewer = {"RAFTSCHED_TOKEN": place.secrets["JOBS_VIEWER"]}
    done = place.run(catalog, ["sh", "-e"], **viewer)
    assert done.returncode == 0, done.stderr
    entities = list(yaml.safe_load_all((place.directory / "catalog-info.yaml").read_text()))
    jobs = place.jobs()
    assert len(entities) == len(jobs) == 3
    for entity in entities:
        name, job = entity["metadata"]["name"], jobs[entity["metadata"]["title"].partition("/")[2]]
        assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", name)
        assert entity["kind"] == "Resource"
        assert entity["spec"] == {"type": "job", "owner": job["owner"] or "unknown", "system": "shop"}
        assert entity["metadata"]["links"][0]["url"] == f"https://n1.example.com:7401/ui/jobs/{job['id']}"
    assert {entity["metadata"]["name"] for entity in entities} >= {"shop.tidy", "shop.report"}
    done = place.run(by_owner, ["sh", "-e"], **viewer)
    found = {row["owner"]: row["jobs"] for row in json.loads(done.stdout)}
    assert (found["ana"], found["ben"]) == (["shop/tidy"], ["shop/report"])
