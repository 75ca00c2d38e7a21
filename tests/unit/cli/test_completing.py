"""Names are completed as the cluster has them: quickly, or not at all, and in the shells themselves."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

from raftsched.cli import completing
from raftsched.cli.lazy import COMPLETE
from raftsched.cli.main import cli
from tests.support.examples import ROOT
from tests.support.stub_server import Reply, Request, Stub, problem, serve
from tests.unit.cli.house import ID, INSTANCE, run

JOBS = [
    {"id": ID, "namespace": "billing", "name": "nightly-report", "state": "SCHEDULED"},
    {"id": ID, "namespace": "default", "name": "tick", "state": "SUSPENDED"},
]
RUN = {"id": INSTANCE, "state": "FAILED", "namespace": "billing", "job_name": "nightly-report"}
LISTS = {
    "/v1/namespaces": [{"name": "billing"}, {"name": "default"}],
    "/v1/queues": [{"name": "mail"}],
    "/v1/calendars": [{"name": "holidays"}],
    "/v1/webhooks": [{"name": "ops"}],
    "/v1/workers": [{"name": "w1"}],
    "/v1/nodes": [{"id": "n1", "role": "leader"}],
    "/v1/tokens": [{"id": "0d3k5xw2a9f4t"}],
    "/v1/secrets": [{"namespace": "billing", "name": "smtp"}],
    "/v1/workflows": [{"id": INSTANCE}],
    "/v1/operations": [{"id": "0d3k5xw2a9f4o"}],
    "/v1/instances": [RUN],
}


def cluster(request: Request) -> Reply:
    path, _, query = request.path.partition("?")
    if path == "/v1/jobs":
        said = dict(pair.split("=") for pair in query.split("&"))
        found = [
            job
            for job in JOBS
            if said.get("namespace", job["namespace"]) == job["namespace"]
            and said.get("state", job["state"]) == job["state"]
            and job["name"].startswith(said.get("name_prefix", ""))
        ]
        return 200, {"items": found, "next": None}
    return 200, {"items": LISTS[path], "next": None}


def offered(line: str, **env: str) -> list[str]:
    """Returns what bash is told, without a message and in a process of its own."""
    about = {**os.environ, COMPLETE: "bash_complete", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    code = "import sys; from raftsched.cli.main import cli; cli.main(prog_name='raftsched')"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**about, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    "line, names",
    [
        ("jobs get ", ["billing/nightly-report", "tick"]),
        ("jobs get t", ["tick"]),
        ("jobs get billing/n", ["billing/nightly-report"]),
        ("jobs get bil", ["billing/nightly-report"]),
        ("jobs resume ", ["tick"]),  # it alone is paused
        ("jobs pause tick bil", ["billing/nightly-report"]),
        ("jobs list -N b", ["billing"]),
        ("jobs list --queue m", ["mail"]),
        ("jobs create x --after ti", ["tick"]),
        ("runs list --job=ti", ["--job=tick"]),
        ("runs get 0d3", [INSTANCE]),
        ("runs kill 0d3", [INSTANCE]),
        ("instances get 0d3", [INSTANCE]),
        ("logs 0d3", [INSTANCE]),
        ("logs ti", ["tick"]),
        ("workflows kill ", [INSTANCE]),
        ("operations get ", ["0d3k5xw2a9f4o"]),
        ("queues get ", ["mail"]),
        ("calendars get ", ["holidays"]),
        ("webhooks test ", ["ops"]),
        ("secrets get b", ["billing/smtp"]),
        ("nodes drain ", ["n1"]),
        ("runs list --node ", ["n1"]),
        ("workers get ", ["w1"]),
        ("tokens revoke ", ["0d3k5xw2a9f4t"]),
        ("namespaces get d", ["default"]),
        ("help jobs cr", ["create"]),
        ("help cluster members a", ["add"]),
        ("help dl", ["dlq"]),
    ],
)
def test_names(line: str, names: list[str]) -> None:
    with serve(cluster) as stub:
        assert offered(f"raftsched {line}", RAFTSCHED_SERVER=stub.url) == names


def test_contexts_are_those_of_the_file_and_those_who_say_where_are_heeded(tmp_path: Path) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    with serve(cluster) as stub:
        assert run("contexts", "set", "prod", stub.url, env=home).exit_code == 0
        assert offered("raftsched --context p", **home) == ["prod"]
        assert offered("raftsched contexts use ", **home) == ["prod"]
        assert offered("raftsched --context prod queues get ", **home) == ["mail"]
        assert offered(f"raftsched --server {stub.url} queues get ") == ["mail"]
        assert offered(f"raftsched queues get --server {stub.url} ") == ["mail"]
        told = offered(f"raftsched --token rs_secret --server {stub.url} queues get ")
    assert told == ["mail"]
    assert stub.requests[-1].headers["authorization"] == "Bearer rs_secret"


def silent(request: Request) -> Reply:
    never.wait(60)
    return 200, {"items": [], "next": None}


never = threading.Event()


@pytest.mark.parametrize("answer", [lambda r: problem(401, "unauthorized", "no"), lambda r: (200, b"<html>"), silent])
def test_who_does_not_answer_has_no_names_and_nothing_is_said_or_asked(answer: object) -> None:
    with serve(answer) as stub:  # type: ignore[arg-type]
        assert offered("raftsched jobs get t", RAFTSCHED_SERVER=stub.url) == []
        never.set()
    never.clear()
    assert len(stub.requests) == 1
    assert offered("raftsched jobs get t", RAFTSCHED_SERVER="http://127.0.0.1:1") == []
    assert offered("raftsched jobs get t", RAFTSCHED_SERVER="nonsense") == []
    assert offered("raftsched jobs get t", RAFTSCHED_TOKEN_FILE="/nonexistent") == []


# Words of usages that stand for what no list of the cluster has.
_NOT_NAMES = {
    "NAME",
    "ID",
    "EXPR",
    "FILE",
    "FILENAME",
    "DIR",
    "DIRECTORY",
    "COMMAND",
    "COUNT",
    "PLACE",
    "SETTING",
    "MODULE",
}


def _parameters(command: click.Command, path: str = "") -> list[tuple[str, click.Parameter]]:
    found = [(path, parameter) for parameter in command.params]
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            assert below is not None
            found += _parameters(below, f"{path} {name}".strip())
    return found


def test_each_argument_is_completed_or_is_known_to_be_no_name() -> None:
    kinds = {completing.stands_for(p): path for path, p in _parameters(cli) if isinstance(p, click.Argument)}
    known = {*completing.SOURCES, "CONTEXT", "", "TEXT", "URL[,URL]"}
    left = {kind: path for kind, path in kinds.items() if kind not in known | _NOT_NAMES and kind.isalpha()}
    assert left == {}


# ---------------------------------------------------------------- shells


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a `raftsched` that completes, and otherwise notes how it was called."""
    program = tmp_path / "raftsched"
    program.write_text(
        "#!/bin/sh\n"
        f'if [ -n "${COMPLETE}" ] || [ "$1" = completion ]; then exec {sys.executable} -m raftsched.cli.main "$@"; fi\n'
        f'echo "$@" > {tmp_path}/called.part; mv {tmp_path}/called.part {tmp_path}/called\n'
    )
    program.chmod(0o755)
    return tmp_path


def typed(place: Path, stub: Stub, shell: list[str], *lines: str) -> str:
    """Types into a shell at a terminal. Returns how `raftsched` was called."""
    env = {
        "PATH": f"{place}:{os.environ['PATH']}", "HOME": str(place), "TERM": "dumb", "RAFTSCHED_SERVER": stub.url,
        "PYTHONPATH": str(ROOT), "ZDOTDIR": str(place),
    }  # fmt: skip
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place)
        os.execvpe(shell[0], shell, env)
    shown = b""
    try:
        for line in lines:
            os.write(terminal, line.encode())
        while not (place / "called").exists():
            shown += os.read(terminal, 4096)
    except OSError:
        raise AssertionError(shown.decode(errors="replace")) from None
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)
    return (place / "called").read_text().strip()


CASES = [
    ("raftsched jobs get billing/ni\t\n", "jobs get billing/nightly-report"),
    (f"raftsched logs {ID}@17\t\n", f"logs {INSTANCE}"),
    ("raftsched jobs list --queue=ma\t\n", "jobs list --queue=mail"),
    ("raftsched que\tget ma\t\n", "queues get mail"),
]


@pytest.mark.parametrize("line, called", CASES)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_what_is_typed(place: Path, shell: str, line: str, called: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    starts = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
    before = {"bash": "", "zsh": "autoload -U compinit; compinit -u -D\n"}[shell]
    with serve(cluster) as stub:
        script = f'{before}eval "$(raftsched completion {shell})"\n'
        assert typed(place, stub, starts[shell], script, line) == called


@pytest.mark.parametrize("line, called", CASES)
def test_fish_completes_what_is_typed(place: Path, line: str, called: str) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    words = line.partition("\t")[0]
    last = called.rpartition(" ")[2] if "que" not in words[:14] else "queues"
    with serve(cluster) as stub:
        done = subprocess.run(
            [fish, "--no-config", "-c", f"raftsched completion fish | source; complete -C '{words}'"],
            env={"PATH": f"{place}:{os.environ['PATH']}", "HOME": str(place), "RAFTSCHED_SERVER": stub.url,
                 "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert last in [line.partition("\t")[0] for line in done.stdout.splitlines()]
