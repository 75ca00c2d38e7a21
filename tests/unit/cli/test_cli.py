"""The commands against a stub of the API: what they send, what they print, how they end."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import cast

import click
import pytest
from click.testing import CliRunner, Result

from raftsched.cli.dev.state import DevState, Member, Process
from raftsched.cli.main import cli
from raftsched.cli.remote import client
from tests.support.stub_server import Stub, serve
from tests.unit.cli.house import BY_NAME, ID, INSTANCE, JOB, routes, run

# ---------------------------------------------------------------- the frame


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom raftsched.cli.main import cli\n"
        "for args in (['--help'], ['jobs', '--help'], ['dev', '--help'], ['node', '--help'], ['contexts', '--help'],\n"
        "             ['mcp', '--help'],\n"
        "             ['--server', 'http://127.0.0.1:1', 'jobs', 'diff', '--help']):\n"
        "    try: cli.main(args, prog_name='raftsched')\n"
        "    except SystemExit as e: assert not e.code\n"
        "heavy = ['aiohttp','lmdb','pysyncobj','croniter','asyncio','msgspec','orjson','http.client','ssl',\n"
        "         'yaml','tomllib','fractions','mcp','mcp_types','pydantic']\n"
        "print('HEAVY', [m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: raftsched" in done.stdout
    assert done.stdout.splitlines()[-1] == "HEAVY []"


def test_a_command_that_talks_imports_little() -> None:
    """Starting takes 150 ms at most; that is a matter of what is imported, and this can be counted. Modules that are
    nothing but texts count for nothing."""
    code = (
        "import sys\nfrom raftsched.cli.main import cli\n"
        "try: cli.main(['--server', 'http://127.0.0.1:1', 'jobs', 'list'], prog_name='raftsched')\n"
        "except SystemExit as e: assert e.code == 6\n"
        "heavy = ['aiohttp','lmdb','pysyncobj','croniter','asyncio','msgspec','orjson','yaml',\n"
        "         'raftsched.core','http.client','email','ssl','tomllib','pathlib','shutil','tzdata','zoneinfo',\n"
        "         'concurrent.futures','importlib.metadata','raftsched.cli.jobs.apply','raftsched.cli.jobs.create']\n"
        "ours = [m for m in sys.modules if m.startswith('raftsched') and '.surface.plain.' not in m]\n"
        "print([m for m in heavy if m in sys.modules], len(ours))"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    heavy, _, count = done.stdout.rstrip().rpartition(" ")
    assert heavy == "[]"
    assert int(count) < 40


def _all_commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += _all_commands(child, (*path, name))
    return found


@pytest.mark.parametrize("path", _all_commands(cli), ids=" ".join)
def test_every_help_has_a_sentence_and_leaves_have_examples(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.output
    leaf = "Commands:" not in result.output and path
    if leaf:
        assert f"raftsched {' '.join(path)}" in result.output.replace("| raftsched", "raftsched")[20:]


@pytest.mark.parametrize("path", _all_commands(cli), ids=" ".join)
def test_what_stands_on_lines_of_its_own_in_a_help_is_not_wrapped(path: tuple[str, ...]) -> None:
    command, context = cast(click.Command, cli), click.Context(cli)
    for name in path:
        command = cast(click.Group, command).get_command(context, name) or command
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        indented = any(line.startswith("  ") for line in paragraph.split("\n"))
        assert paragraph.startswith("\b") or not indented, f"\\b is missing above: {paragraph}"


def test_unreachable_is_one_line_and_exit_6() -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "list")
    assert result.exit_code == 6
    assert result.stderr.startswith("raftsched: no node answers: http://127.0.0.1:1 refuses connections")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_where_the_server_comes_from() -> None:
    with serve(lambda r: (200, {"items": [], "next": None})) as stub:
        assert run("jobs", "list", env={"RAFTSCHED_SERVER": stub.url}).exit_code == 0
        assert run("--server", stub.url, "jobs", "list", env={"RAFTSCHED_SERVER": "http://127.0.0.1:1"}).exit_code == 0
        assert run("--server", "http://127.0.0.1:1", "jobs", "list", "--server", stub.url).exit_code == 0
    assert len(stub.requests) == 3
    assert run("jobs", "list", "--server", "ftp://x").exit_code == 2


def port_of(stub: Stub) -> int:
    return int(stub.url.rpartition(":")[2])


def dev_file(process: Process | None, *ports: int) -> None:
    """What `raftsched dev` leaves in the current directory."""
    Path(".raftsched/dev").mkdir(parents=True, exist_ok=True)
    state = DevState(ports[0], [Member(f"n{i + 1}", port, 1) for i, port in enumerate(ports)], supervisor=process)
    state.save(Path(".raftsched/dev"))


def test_without_a_word_the_dev_cluster_of_this_directory_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAFTSCHED_SERVER", raising=False)
    with serve(lambda r: (200, {"items": [], "next": None})) as stub, serve(lambda r: (200, {})) as other:
        dev_file(Process.of(os.getpid()), 1, port_of(stub))  # the first node is down
        assert run("jobs", "list").exit_code == 0
        assert len(stub.requests) == 1
        assert run("cluster", "status", env={"RAFTSCHED_SERVER": "http://127.0.0.1:1"}).exit_code == 6
        dev_file(Process.of(os.getpid()), 1, 2)
        result = run("jobs", "list")
        assert result.exit_code == 6
        assert "http://127.0.0.1:1 refuses connections; http://127.0.0.1:2 refuses connections" in result.stderr
        assert other.requests == []


def test_what_is_no_running_dev_cluster_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAFTSCHED_SERVER", raising=False)
    usual = ["http://127.0.0.1:7401", "http://127.0.0.1:7402", "http://127.0.0.1:7403"]

    def servers() -> list[str]:
        return [str(server) for server in client(None).servers]

    assert servers() == usual
    me = Process.of(os.getpid())
    assert me is not None
    for process in (None, Process(me.pid, me.start + 1)):
        dev_file(process, 1, 2)
        assert servers() == usual
    for text in ("", "{}", "[]", '{"port": 1, "members": [], "supervisor": null}'):
        Path(".raftsched/dev/dev.json").write_text(text)
        assert servers() == usual
    dev_file(me, 70_000)
    assert servers() == usual
    Path(".raftsched/dev/dev.json").unlink()
    Path(".raftsched/dev/dev.json").mkdir()
    assert servers() == usual


def test_completion() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_RAFTSCHED_COMPLETE" in run("completion", shell).output
    assert run("completion", env={"SHELL": "/bin/tcsh"}).exit_code == 2


@pytest.mark.parametrize(
    "words, offered",
    [
        ("clu", ["cluster"]),
        ("jobs ex", ["explain", "export", "expire"]),
        ("cluster settings g", ["get"]),
        ("jobs list --own", ["--owner"]),
        ("jobs list -o y", ["yaml"]),
        ("jobs create --overlap q", ["queue_one", "queue_all"]),
    ],
)
def test_what_completion_offers(words: str, offered: list[str]) -> None:
    """As the script of bash asks, in a process of its own."""
    text = f"raftsched {words}"
    env = {
        **os.environ,
        "_RAFTSCHED_COMPLETE": "bash_complete",
        "COMP_WORDS": text,
        "COMP_CWORD": str(len(text.split(" ")) - 1),
    }
    code = "import sys; from raftsched.cli.main import cli; cli.main(prog_name='raftsched')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.stderr == ""
    assert [line.partition(",")[2] for line in done.stdout.splitlines()] == offered


# ---------------------------------------------------------------- the rest


def test_instances() -> None:
    row = {"id": INSTANCE, "job_id": ID, "state": "FAILED", "scheduled_at": "2026-11-20T12:00:00Z", "node": "n2",
           "attempt": 2, "exit_code": 3, "ended_at": None, "reason": None, "error": "exit code 3",
           "attempts": [{"number": 1, "node": "n2", "outcome": "failed", "exit_code": 3}]}  # fmt: skip
    table = {
        f"GET {BY_NAME}": JOB,
        f"GET /v1/instances?state=FAILED&from=2026-01-01T00%3A00%3A00Z&job={ID}&limit=5": {
            "items": [row],
            "next": None,
        },
        f"GET /v1/instances/{INSTANCE}": row,
        f"GET /v1/instances/{INSTANCE}/output?stream=stdout&attempt=2&tail=9": b"\x00raw\xff",
        f"POST /v1/instances/{INSTANCE}/kill": (202, row),
        f"POST /v1/instances/{INSTANCE}/rerun": (202, row),
    }
    with serve(routes(table)) as stub:

        def ok(*args: str) -> Result:
            result = run("--server", stub.url, "instances", *args)
            assert result.exit_code == 0, result.stderr
            return result

        listed = ok("list", "--job", "tick", "--state", "failed", "--from", "2026-01-01T00:00:00Z", "--limit", "5")
        assert "exit code 3" in listed.output
        assert "failed" in ok("get", INSTANCE).output
        output = ok("output", INSTANCE, "--stream", "stdout", "--attempt", "2", "--tail", "9")
        assert output.stdout_bytes == b"\x00raw\xff"
        assert ok("kill", INSTANCE).output == f"asked to end: {INSTANCE}\n"
        assert ok("rerun", INSTANCE).output == f"runs again: {INSTANCE}\n"
    assert run("instances", "get", "non@sense").exit_code == 2
    assert run("instances", "get", "Non Sense").exit_code == 2


def test_the_newest_instance_of_a_job() -> None:
    told = {"id": INSTANCE, "text": "It waits.", "why_there": [], "waits": [], "steps": [], "steps_left_out": False}
    table = {
        f"GET {BY_NAME}": {**JOB, "last_instance": INSTANCE},
        "GET /v1/namespaces/shop/jobs/new": JOB,
        f"GET /v1/instances/{INSTANCE}": {"id": INSTANCE, "state": "RUNNING"},
        f"GET /v1/instances/{INSTANCE}/explain": told,
        f"GET /v1/instances/{INSTANCE}/output": b"hello\n",
    }
    with serve(routes(table)) as stub:
        shown = {c: run("--server", stub.url, "instances", c, "tick") for c in ("get", "explain", "output")}
        none = run("--server", stub.url, "instances", "get", "shop/new")
        unknown = run("--server", stub.url, "instances", "get", "unknown")
    assert [found.exit_code for found in shown.values()] == [0, 0, 0]
    assert INSTANCE in shown["get"].output
    assert shown["explain"].output.startswith("It waits.")
    assert shown["output"].output == "hello\n"
    assert (none.exit_code, none.stderr) == (3, "raftsched: shop/new has not run yet\n")
    assert (unknown.exit_code, "there is no job" in unknown.stderr) == (3, True)


def test_preview_and_next() -> None:
    answer = {
        "description": "At 02:30",
        "next": [{"at": "2027-03-28T01:00:00Z", "note": "DST gap"}, {"at": "x", "note": None}],
    }
    with serve(routes({"POST /v1/schedules/preview": answer, f"GET {BY_NAME}": JOB,
                       f"GET /v1/jobs/{ID}/next?count=2": answer})) as stub:  # fmt: skip
        result = run("--server", stub.url, "preview", "30 2 * * *", "-z", "Europe/Madrid", "-n", "2")
        assert result.output == "At 02:30\n2027-03-28T01:00:00Z  DST gap\nx\n"
        assert stub.requests[0].json == {
            "trigger": {"cron": "30 2 * * *", "timezone": "Europe/Madrid"},
            "count": 2,
        }
        assert run("--server", stub.url, "preview", "90s").exit_code == 0
        assert run("--server", stub.url, "preview", "--rrule", "FREQ=DAILY", "-z", "Europe/Madrid").exit_code == 0
        assert stub.requests[-1].json["trigger"] == {"rrule": "FREQ=DAILY", "timezone": "Europe/Madrid"}
        assert run("--server", stub.url, "preview", "90s", "--rrule", "FREQ=DAILY").exit_code == 2
        assert run("--server", stub.url, "preview").exit_code == 2
        assert stub.requests[1].json["trigger"] == {"every": "90s"}
        assert run("--server", stub.url, "jobs", "next", "tick", "-n", "2").output == result.output


def test_a_job_is_checked_without_being_made() -> None:
    answer = {"result": "created", "job": {}, "description": "every 90s", "next": [{"at": "x", "note": None}]}
    with serve(routes({"POST /v1/jobs:check": answer})) as stub:
        result = run("--server", stub.url, "jobs", "create", "a", "--every", "90s", "--shell", "true", "--dry-run")
        assert (result.exit_code, result.output) == (0, "it can be created\nevery 90s\nx\n")
        assert [request.path for request in stub.requests] == ["/v1/jobs:check"]
        assert stub.requests[0].json["trigger"] == {"every": "90s"}


def test_node_says_what_is_wrong_in_one_line() -> None:
    result = run("node", "--id", "N1", "--data", "d")
    assert result.exit_code == 1  # like everything that keeps a node from starting
    assert result.stderr.startswith("raftsched: id 'N1' is not possible")
    assert result.stderr.count("\n") == 1


def test_node_beyond_loopback_says_both_ways_to_be_shut() -> None:
    result = run("node", "--id", "n1", "--data", "d", "--http", "0.0.0.0:7401")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "--tls-cert" in result.stderr
    assert "--insecure-http" in result.stderr


@pytest.mark.parametrize("way", ["option", "variable"])
def test_the_token_may_be_in_a_file(tmp_path: Path, way: str) -> None:
    file = tmp_path / "token"
    file.write_text("rs_1\n")
    with serve(lambda request: (200, {"items": []})) as stub:
        words = ["--token-file", str(file)] if way == "option" else []
        env = {"RAFTSCHED_TOKEN_FILE": str(file)} if way == "variable" else {}
        result = CliRunner().invoke(cli, ["--server", stub.url, *words, "jobs", "list"], env=env)
        assert result.exit_code == 0, result.output
        assert [request.headers["authorization"] for request in stub.requests] == ["Bearer rs_1"]
    file.write_text("")
    result = CliRunner().invoke(cli, ["--server", "http://127.0.0.1:1", "--token-file", str(file), "jobs", "list"])
    assert (result.exit_code, "has no token" in result.output) == (5, True), result.output
