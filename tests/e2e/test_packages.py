"""What is released: built twice it has the same bytes, and a wheel installed by itself is a cluster that runs jobs."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from scripts import build
from tests.support.amounts import some
from tests.support.modules import ROOT
from tests.support.patience import patient, wait_until
from tests.support.ports import dev_port
from tests.support.pythons import interpreter, versions
from tests.support.started import started

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CHECKOUT = ROOT.parent
OFFLINE = re.compile(r"connection broken|Temporary failure in name resolution|Network is unreachable|ConnectTimeout")
FROM_SOURCE = "pysyncobj"  # Python alone, and released as source only: pip makes the wheel itself, without a compiler
PROGRAM = """\
import raftsched

with raftsched.Client("http://127.0.0.1:7401") as client:
    job = client.jobs.create(trigger={"in": "1s"}, handler={"shell": "true"}, name="greeting")
    state: str = client.instances.wait(client.jobs.run(job), timeout=30).state
    client.instances.wait(state, timeout="long")  # type: ignore[arg-type]
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The packages of the commit that is checked out, by the ends of their names."""
    if shutil.which("git") is None or not (CHECKOUT / ".git").exists():
        pytest.skip("packages are built from a commit, and this is no checkout")
    files = build.build("HEAD", tmp_path_factory.mktemp("built"))
    return {file.name.rpartition(".")[2]: file for file in files}


def test_built_again_elsewhere_and_later_the_bytes_are_the_same(built: dict[str, Path], tmp_path: Path) -> None:
    again = tmp_path / "again"
    elsewhere = {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C",
        "PYTHONHASHSEED": "7",
    }
    subprocess.run(
        [sys.executable, CHECKOUT / "scripts" / "build.py", "--out", again],
        cwd=tmp_path, env={"PATH": os.environ["PATH"], **elsewhere}, umask=0o077, check=True, capture_output=True,
    )  # fmt: skip
    for file in built.values():
        assert (again / file.name).read_bytes() == file.read_bytes(), file.name


def test_the_sdist_has_all_that_the_wheel_is_built_from(built: dict[str, Path], tmp_path: Path) -> None:
    epoch = int(build.git("show", "-s", "--format=%ct", "HEAD"))
    wheel = build.from_sdist(built["gz"], tmp_path, epoch)
    assert wheel.read_bytes() == built["whl"].read_bytes()


def test_the_wheel_carries_the_page_types_and_licence_and_says_what_it_is(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["whl"]) as wheel:
        names = wheel.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        said = email.message_from_bytes(wheel.read(about))
    for wanted in (
        *("raftsched/py.typed", "raftsched/ui/static/index.html", "raftsched/ui/static/app.js"),
        *("raftsched/ui/docs.json.br", "raftsched/ui/docs_theme/page.html", "raftsched/commit.txt"),
    ):
        assert wanted in names
    assert not [name for name in names if "test_" in name or "__pycache__" in name or "DESIGN" in name]
    assert any(name.endswith("/share/man/man1/raftsched-jobs.1") for name in names)
    assert "dev" not in (said.get_all("Provides-Extra") or ())
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Description-Content-Type"] == "text/markdown"


def test_the_bill_lists_what_an_installation_brings_and_is_as_the_standard_has_it(built: dict[str, Path]) -> None:
    text = built["json"].read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bill = json.loads(text)
    components = {component["name"]: component for component in bill["components"]}
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    direct = {re.split(r"[=<>\[]", text)[0] for text in project["dependencies"]}
    assert {name for name, component in components.items() if component["scope"] == "required"} > direct
    optional = {name for name, component in components.items() if component["scope"] == "optional"}
    for extra, texts in project["optional-dependencies"].items():
        assert {re.split(r"[=<>\[]", text)[0] for text in texts} <= optional, extra
    assert not components.keys() & {"pytest", "mypy", "hatchling"}
    for name, component in components.items():
        assert component["licenses"], name
        assert component["hashes"], name
    assert bill["metadata"]["component"]["hashes"][0]["content"] == build.digest(built["whl"])
    sums = built["SHA256SUMS"].read_text()
    assert sums == "".join(f"{build.digest(built[end])}  {built[end].name}\n" for end in ("whl", "gz", "json"))


# ---------------------------------------------------------------- installed


class Installed:
    """An environment that holds the wheel and what it needs, and nothing else."""

    def __init__(self, version: str, python: Path, wheel: Path, directory: Path) -> None:
        self.version = version
        self.directory = directory
        self.python = directory / "env" / "bin" / "python"
        started("venv")
        subprocess.run([python, "-I", "-m", "venv", "--without-pip", directory / "env"], check=True)
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-compile"]
        command += ["--only-binary", ":all:", "--no-binary", FROM_SOURCE, "--retries", "1", str(wheel)]
        none = {"CC": "false", "CXX": "false", "RUSTC": "false"}  # whoever looks for a compiler finds one that fails
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **none}, check=False)
        if done.returncode != 0 and OFFLINE.search(done.stderr):
            pytest.skip("pip reaches no index: the wheel was not installed")
        assert done.returncode == 0, done.stderr

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.directory), "PYTHONSAFEPATH": "1"}

    def run(self, *arguments: str) -> str:
        """Returns what a program of the environment prints."""
        command = [str(self.python.parent / arguments[0]), *arguments[1:]]
        done = subprocess.run(
            command,
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=patient(60),
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def dev(self) -> Iterator[str]:
        """One node of `raftsched dev`, ready; leaving is Ctrl-C."""
        port = dev_port()
        command = [self.python.parent / "raftsched", "dev", "--nodes", "1", "--no-samples", "--port", str(port)]
        dev = subprocess.Popen(
            command, cwd=self.directory, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            assert dev.stdout is not None
            said = []
            for line in dev.stdout:
                said.append(line)
                if "ready; Ctrl-C" in line:
                    break
            assert "ready; Ctrl-C" in said[-1], "".join(said)
            yield f"http://127.0.0.1:{port}"
        finally:
            dev.send_signal(signal.SIGINT)
            rest, _ = dev.communicate(timeout=patient(60))
        assert dev.returncode == 0, rest

    def processes(self) -> list[str]:
        """Command lines of all processes that run by this environment or in its directory."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                where = os.readlink(entry / "cwd")
            except OSError:
                continue  # it has ended, or is another user's
            if str(self.directory) in line or where.startswith(str(self.directory)):
                found.append(line)
        return found


def tried() -> list[str]:
    """Returns the versions to install for: in a shared run the newest that is here and one of the others."""
    here = [version for version in versions() if interpreter(version) is not None]
    return [*some(here[:-1]), here[-1]] if len(here) > 1 else here


TRIED = tried()


@pytest.fixture(scope="module", params=versions())
def installed(request: Any, built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    version = request.param
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    if version not in TRIED:
        pytest.skip(f"Python {version} has its turn in another run: this one tries the newest and one other")
    return Installed(version, python, built["whl"], tmp_path_factory.mktemp(f"installed-{version}"))


def ask(url: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=patient(30)) as answer:
        return json.load(answer)


def test_a_wheel_installed_by_itself_is_a_cluster_that_runs_jobs(installed: Installed, built: dict[str, Path]) -> None:
    version = built["whl"].name.split("-")[1]
    commit = build.git("rev-parse", "HEAD").decode()
    assert installed.run("raftsched", "--version") == f"raftsched {version} ({commit[:12]})\n"
    where = installed.run("python", "-c", "import raftsched; print(raftsched.__file__)")
    assert where.startswith(str(installed.directory / "env"))
    with installed.dev() as url:
        job = ask(f"{url}/v1/jobs", {"trigger": {"manual": True}, "handler": {"python": "platform:python_version"}})
        run = ask(f"{url}/v1/jobs/{job['id']}/run", {})["id"]
        row: dict[str, Any] = {}

        def succeeded() -> bool:
            nonlocal row
            row = ask(f"{url}/v1/instances/{run}")
            return row["state"] == "SUCCEEDED"

        wait_until(succeeded, lambda: f"the run to succeed: {row}", every=0.05)
        assert (
            row["result"] == installed.run("python", "-c", "import platform; print(platform.python_version())").strip()
        )
        for path in ("/ui/", "/ui/docs/", "/ui/docs/runbook/"):
            with urllib.request.urlopen(url + path, timeout=patient(30)) as page:
                assert b"<html" in page.read()
        assert installed.processes()
    assert not installed.processes(), "something is left"


def test_a_program_that_uses_the_installed_package_is_checked_against_its_types(
    installed: Installed, tmp_path: Path
) -> None:
    """In a strict run an `ignore` that is not needed is an error, and it would not be if the package had no types."""
    if installed.version != TRIED[-1]:
        pytest.skip("once is enough: the types are the same for every version")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed.python]
    command += ["--cache-dir", tmp_path / "cache", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
