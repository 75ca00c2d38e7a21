"""The commands against a stub of the API: what they send, what they print, how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from raftsched.cli.dev_state import DevState, Member, Process
from raftsched.cli.hostzone import host_zone
from raftsched.cli.main import cli
from raftsched.cli.remote import client
from tests.support.stub_server import Request, Stub, problem, serve

ID = "0d3k5xw2a9f4m"
INSTANCE = f"{ID}@1763600400000"
JOB = {
    "id": ID, "name": "tick", "namespace": "default", "state": "SCHEDULED", "revision": 3, "running": 0,
    "next_fire_at": "2026-11-20T12:00:00Z", "last_instance": None, "created_at": "2026-11-20T11:00:00Z",
    "trigger": {"cron": "0 12 * * *", "timezone": "Europe/Madrid"}, "handler": {"shell": "date"},
}  # fmt: skip


def run(*args: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(cli, args, input=input, env=env)


def routes(table: dict[str, Any]) -> Callable[[Request], tuple[int, Any]]:
    """Answers by "METHOD path"; a plain value means 200."""

    def answer(request: Request) -> tuple[int, Any]:
        key = f"{request.method} {request.path}"
        found = table.get(key)
        if found is None:
            return problem(404, "not-found", f"No {key}.")
        return found if isinstance(found, tuple) else (200, found)

    return answer


def asked(stub: Stub) -> list[str]:
    return [f"{r.method} {r.path}" for r in stub.requests]


BY_NAME = "/v1/namespaces/default/jobs/tick"


# ---------------------------------------------------------------- the frame


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom raftsched.cli.main import cli\n"
        "for args in (['--help'], ['jobs', '--help'], ['dev', '--help'], ['node', '--help']):\n"
        "    try: cli.main(args, prog_name='raftsched')\n"
        "    except SystemExit as e: assert not e.code\n"
        "heavy = ['aiohttp','lmdb','pysyncobj','croniter','rich','asyncio','msgspec','orjson','http.client','ssl']\n"
        "print('HEAVY', [m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: raftsched" in done.stdout
    assert done.stdout.splitlines()[-1] == "HEAVY []"


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


# ---------------------------------------------------------------- jobs


def test_list_as_table_json_and_names() -> None:
    other = {**JOB, "name": "x", "namespace": "billing", "trigger": {"manual": True}, "next_fire_at": None}
    with serve(lambda r: (200, {"items": [JOB, other], "next": None})) as stub:
        table = run("--server", stub.url, "jobs", "list", "-N", "billing", "--state", "scheduled")
        names = run("--server", stub.url, "jobs", "list", "-o", "name")
        full = run("--server", stub.url, "jobs", "list", "-o", "json")
    assert asked(stub)[0] == "GET /v1/jobs?namespace=billing&state=SCHEDULED&limit=100"
    assert table.output.splitlines()[0].split() == [
        "NAME",
        "STATE",
        "TRIGGER",
        "NEXT",
        "LAST",
        "START",
        "RUNNING",
        "ID",
    ]
    assert "cron 0 12 * * * Europe/Madrid" in table.output.splitlines()[1]
    assert "manual" in table.output.splitlines()[2]
    assert names.output == "tick\nbilling/x\n"
    assert json.loads(full.output) == {"items": [JOB, other]}


@pytest.mark.parametrize(
    "ref, paths",
    [
        ("tick", [f"GET {BY_NAME}"]),
        ("default/tick", [f"GET {BY_NAME}"]),
        (ID, [f"GET /v1/jobs/{ID}"]),
        ("tickticktick0", ["GET /v1/jobs/tickticktick0", "GET /v1/namespaces/default/jobs/tickticktick0"]),
    ],
)
def test_a_job_by_name_or_id(ref: str, paths: list[str]) -> None:
    with serve(routes({f"GET {BY_NAME}": JOB, f"GET /v1/jobs/{ID}": JOB,
                       "GET /v1/namespaces/default/jobs/tickticktick0": JOB})) as stub:  # fmt: skip
        result = run("--server", stub.url, "jobs", "get", ref, "-o", "json")
    if ref == "tickticktick0":  # i is not in the alphabet of ids
        paths = paths[1:]
    assert json.loads(result.output) == JOB
    assert asked(stub) == paths


def test_what_looks_like_an_id_may_be_a_name() -> None:
    name = "0123456789abc"
    with serve(routes({f"GET /v1/namespaces/default/jobs/{name}": JOB})) as stub:
        assert run("--server", stub.url, "jobs", "get", name).exit_code == 0
    assert asked(stub) == [f"GET /v1/jobs/{name}", f"GET /v1/namespaces/default/jobs/{name}"]


def test_no_such_job_is_exit_3() -> None:
    with serve(routes({})) as stub:
        result = run("--server", stub.url, "jobs", "pause", "billing/none")
    assert result.exit_code == 3
    assert "there is no job 'billing/none'" in result.stderr
    assert run("jobs", "get", "No Such").exit_code == 2
    assert run("jobs", "pause", "No Such").exit_code == 2


@pytest.mark.parametrize(
    "args, path, body",
    [
        (["pause"], "pause", {}),
        (["resume"], "resume", {}),
        (["expire"], "expire", {}),
        (["expire", "--kill"], "expire", {"kill": True}),
        (["run", "--params", '{"a": 1}', "--priority", "9"], "run", {"params": {"a": 1}, "priority": 9}),
    ],
)
def test_actions(args: list[str], path: str, body: Any) -> None:
    table = {f"GET {BY_NAME}": JOB, f"POST /v1/jobs/{ID}/{path}": (202, {"id": INSTANCE})}
    with serve(routes(table)) as stub:
        result = run("--server", stub.url, "jobs", args[0], "tick", *args[1:])
    assert result.exit_code == 0, result.stderr
    assert stub.requests[1].json == body
    assert ("idempotency-key" in stub.requests[1].headers) == (path == "run")


def test_delete() -> None:
    with serve(routes({f"GET {BY_NAME}": JOB, f"DELETE /v1/jobs/{ID}": (204, None)})) as stub:
        assert run("--server", stub.url, "jobs", "delete", "tick").output == "deleted: tick\n"


def test_run_prints_the_instance() -> None:
    with serve(routes({f"GET {BY_NAME}": JOB, f"POST /v1/jobs/{ID}/run": (202, {"id": INSTANCE})})) as stub:
        assert run("--server", stub.url, "jobs", "run", "tick", "-o", "name").output == INSTANCE + "\n"
        assert run("--server", stub.url, "jobs", "run", "tick", "--params", "{").exit_code == 2


@pytest.mark.parametrize(
    "args, job",
    [
        (["tick", "--every", "10s", "--shell", "date; ls"], {"name": "tick", "trigger": {"every": "10s"},
                                                            "handler": {"shell": "date; ls"}}),
        (["--cron", "@daily", "-z", "Asia/Tokyo", "--", "./a", "-b", "--", "c d"],
         {"trigger": {"cron": "@daily", "timezone": "Asia/Tokyo"}, "handler": {"exec": ["./a", "-b", "--", "c d"]}}),
        (["--in", "5m", "--http", "http://x/y", "--method", "post", "--retry", "5s, 1m"],
         {"trigger": {"in": "5m"}, "handler": {"http": {"url": "http://x/y", "method": "POST"}},
          "retry": {"delays": ["5s", "1m"]}}),
        (["a", "-N", "b", "--manual", "--python", "m:f", "--params", '{"x": 1}', "--env", "A=b=c", "--cwd", "/x",
          "--timeout", "1h", "--overlap", "allow", "--priority", "0", "--owner", "ana", "--label", "t=f",
          "--suspended"],
         {"name": "a", "namespace": "b", "trigger": {"manual": True},
          "handler": {"python": "m:f", "env": {"A": "b=c"}, "cwd": "/x"}, "params": {"x": 1}, "timeout": "1h",
          "overlap": "allow", "priority": 0, "owner": "ana", "labels": {"t": "f"}, "suspended": True}),
    ],
)  # fmt: skip
def test_create(args: list[str], job: dict[str, Any]) -> None:
    with serve(lambda r: (201, JOB)) as stub:
        result = run("--server", stub.url, "jobs", "create", *args)
    assert result.exit_code == 0, result.stderr
    assert result.output == f"created: tick ({ID}), next 2026-11-20T12:00:00Z\n"
    assert stub.requests[0].json == {"namespace": "default", **job}


def test_create_without_a_name_is_one_job_however_often_it_has_to_be_sent() -> None:
    with serve(lambda r: (0, None)) as silent, serve(lambda r: (201, JOB)) as stub:
        result = run("--server", f"{silent.url},{stub.url}", "jobs", "create", "--in", "1m", "--shell", "x")
    assert result.exit_code == 0, result.stderr
    assert silent.requests[0].headers["idempotency-key"] == stub.requests[0].headers["idempotency-key"]


def test_several_jobs_each_get_their_answer_and_the_first_failure_is_the_exit_code() -> None:
    for verb, done in (("delete", "deleted"), ("pause", "paused"), ("resume", "resumed"), ("expire", "expired")):
        way = "DELETE /v1/jobs/{}" if verb == "delete" else f"POST /v1/jobs/{{}}/{verb}"
        table = {
            "GET /v1/namespaces/default/jobs/a": {**JOB, "id": "a1", "name": "a"},
            "GET /v1/namespaces/default/jobs/b": {**JOB, "id": "b1", "name": "b"},
            "GET /v1/namespaces/x/jobs/c": {**JOB, "id": "c1", "name": "c", "namespace": "x"},
            way.format("a1"): problem(409, "illegal-transition", "It is EXPIRED."),
            way.format("b1"): {},
            way.format("c1"): {},
        }
        with serve(routes(table)) as stub:
            result = run("--server", stub.url, "jobs", verb, "a", "No Such", "none", "b", "x/c")
        assert result.exit_code == 4
        assert result.stdout == f"{done}: b\n{done}: x/c\n"
        first, second, third = result.stderr.splitlines()
        assert first == "raftsched: a: It is EXPIRED."
        assert second.startswith("raftsched: 'No Such' is not a job name")
        assert third.startswith("raftsched: there is no job 'none'")


def test_run_of_several() -> None:
    table = {
        "GET /v1/namespaces/default/jobs/a": {**JOB, "id": "a1", "name": "a"},
        "GET /v1/namespaces/default/jobs/b": {**JOB, "id": "b1", "name": "b"},
        "POST /v1/jobs/a1/run": (202, {"id": "a1@1"}),
        "POST /v1/jobs/b1/run": (202, {"id": "b1@1"}),
    }
    with serve(routes(table)) as stub:
        names = run("--server", stub.url, "jobs", "run", "a", "none", "b", "-o", "name")
        assert (names.exit_code, names.stdout) == (3, "a1@1\nb1@1\n")
        keys = [r.headers["idempotency-key"] for r in stub.requests if r.method == "POST"]
        assert len(set(keys)) == 2
        both = run("--server", stub.url, "jobs", "run", "a", "b", "-o", "json")
        assert json.loads(both.stdout) == {"items": [{"id": "a1@1"}, {"id": "b1@1"}]}
        assert json.loads(run("--server", stub.url, "jobs", "run", "a", "-o", "json").stdout) == {"id": "a1@1"}
        table = run("--server", stub.url, "jobs", "run", "a", "b")
        assert table.stdout == "accepted: a runs as a1@1\naccepted: b runs as b1@1\n"


def test_where_no_node_answers_the_rest_is_not_tried_and_said() -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "pause", "a", "b", "c")
    assert result.exit_code == 6
    assert result.stderr.count("no node answers") == 1
    assert result.stderr.splitlines()[-1] == "raftsched: not tried: b c"


def test_killing_several() -> None:
    other = f"{ID}@5"
    with serve(routes({f"POST /v1/instances/{other}/kill": (202, {})})) as stub:
        result = run("--server", stub.url, "instances", "kill", INSTANCE, "nonsense", other)
    assert (result.exit_code, result.stdout) == (3, f"asked to end: {other}\n")
    assert result.stderr.count("\n") == 2


@pytest.mark.parametrize(
    "job",
    [
        {**JOB, "name": None},
        {**JOB, "name": None, "namespace": "billing"},
        {**JOB, "name": "report", "namespace": "billing"},
        {**JOB, "name": "0123456789abc"},  # looks like an id
        {**JOB, "name": "-x"},
        {**JOB, "name": "-x", "namespace": "-y"},
        {**JOB, "name": "--help", "namespace": "billing"},
        {**JOB, "name": ".."},  # a path would lose it
        {**JOB, "name": "x", "namespace": "."},
    ],
)
def test_what_list_names_can_be_deleted_through_xargs(job: dict[str, Any]) -> None:
    reachable = job["name"] and not {".", ".."} & {job["name"], job["namespace"]}
    by_name = f"GET /v1/namespaces/{job['namespace']}/jobs/{job['name']}"
    table = {f"GET /v1/jobs/{ID}": job, f"DELETE /v1/jobs/{ID}": (204, None), **({by_name: job} if reachable else {}),
             "GET /v1/jobs?limit=100": {"items": [job], "next": None},
             "GET /v1/jobs/0123456789abc": {**JOB, "id": "wrong"}}  # fmt: skip
    with serve(routes(table)) as stub:
        listed = run("--server", stub.url, "jobs", "list", "-o", "name").stdout.split()
        result = run("--server", stub.url, "jobs", "delete", *listed)
        assert result.exit_code == 0, result.output
        assert asked(stub)[-1] == f"DELETE /v1/jobs/{ID}"


@pytest.mark.parametrize(
    "args, message",
    [
        (["--shell", "x"], "when: it is missing; say exactly one of --cron, --every, --at, --in, --manual"),
        (["--in", "1m", "--every", "1m", "--shell", "x"], "--every and --in exclude each other"),
        (["--in", "1m"], "what: it is missing; say exactly one of --shell, --python, --http, -- COMMAND"),
        (["A B", "--in", "1m", "--shell", "x"], "not a job name"),
        (["--in", "1m", "--shell", "x", "--label", "y"], "write --label key=value"),
    ],
)
def test_create_says_what_is_missing(args: list[str], message: str) -> None:
    result = run("jobs", "create", *args)
    assert result.exit_code == 2
    assert message in result.stderr


def test_several_bad_fields_are_all_shown() -> None:
    refusal = problem(422, "invalid-job", "Two things.", ("/timeout", "is not a duration"), ("/name", "too long"))
    with serve(lambda r: refusal) as stub:
        result = run("--server", stub.url, "jobs", "create", "a", "--in", "1m", "--shell", "x")
    assert result.exit_code == 1
    assert result.stderr == "raftsched: Two things.\n  /timeout: is not a duration\n  /name: too long\n"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([JOB, {**JOB, "name": "b", "namespace": "x"}]),
        json.dumps({"items": [JOB, {**JOB, "name": "b", "namespace": "x"}]}),
        json.dumps(JOB) + "\n\n" + json.dumps({**JOB, "name": "b", "namespace": "x"}),
        "\ufeff" + json.dumps([JOB, {**JOB, "name": "b", "namespace": "x"}], indent=2),
    ],
)
def test_apply_takes_what_list_prints(text: str) -> None:
    def answer(request: Request) -> tuple[int, Any]:
        return (201 if request.path.endswith("tick") else 200), JOB

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input=text.encode())
    assert result.output == "created: tick\napplied: x/b\n"
    assert asked(stub) == [f"PUT {BY_NAME}", "PUT /v1/namespaces/x/jobs/b"]
    assert stub.requests[0].json == {k: JOB[k] for k in ("name", "namespace", "trigger", "handler")}


def test_apply_goes_on_after_a_refusal_and_ends_with_its_code() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        return problem(409, "illegal-transition", "no") if request.path.endswith("/a") else (200, JOB)

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input='{"name": "a"}\n{"name": "tick"}\n')
    assert result.exit_code == 4
    assert (result.stdout, result.stderr) == ("applied: tick\n", "refused: a: no\n")


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "stdin is empty"),
        ("{", "neither JSON nor JSON lines"),
        ('{"name": "a"}\n{oops}\n', "line 2"),
        ("[1]", "item 1 is not a job"),
        ("3", "item 1 is not a job"),
        ('{"trigger": {}}', "item 1 has no name"),
        ('{"name": "A"}', "not a job name"),
    ],
)
def test_apply_of_a_bad_file_sends_nothing(text: str, message: str) -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "apply", "-f", "-", input=text)
    assert result.exit_code == 2
    assert message in result.stderr


# ---------------------------------------------------------------- import


TAB = "MAILTO=x\n@daily run a\n@reboot run b\n0 0 * * * run c\n"


def test_import_sends_what_it_can_and_lists_the_rest() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        if "run c" in request.json["handler"]["shell"]:
            return problem(422, "invalid-trigger", "The server does not like it.")
        return 201, JOB

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "import", "--from", "crontab", "-", "-N", "web", "--timeout", "2h",
                     "--suspended", "-z", "Asia/Tokyo", "--prefix", "w1-", input=TAB)  # fmt: skip
    assert result.exit_code == 1
    assert [r.path.rpartition("-")[0] for r in stub.requests] == [
        "/v1/namespaces/web/jobs/w1-crontab-run-a",
        "/v1/namespaces/web/jobs/w1-crontab-run-c",
    ]
    assert stub.requests[0].json == {
        "trigger": {"cron": "0 0 * * *", "timezone": "Asia/Tokyo"},
        "handler": {"shell": "run a", "env": {"MAILTO": "x"}},
        "overlap": "allow",
        "labels": {"source": "crontab:crontab"},
        "suspended": True,
        "timeout": "2h",
    }
    assert "line 3: refused: @reboot run b\n    @reboot cannot be imported" in result.stderr
    assert "line 4: refused: 0 0 * * * run c\n    The server does not like it." in result.stderr
    assert result.stdout.startswith("crontab: 1 imported, 2 refused; read without a user column")


def test_import_again_is_the_same_and_everything_in_is_exit_0(tmp_path: Path) -> None:
    tab = tmp_path / "tab"
    tab.write_text("@daily run a\n@hourly run b")
    with serve(lambda r: (200, JOB)) as stub:
        for _ in range(2):
            result = run("--server", stub.url, "jobs", "import", "--from", "crontab", str(tab), "-z", "UTC")
            assert result.exit_code == 0
    assert asked(stub)[:2] == asked(stub)[2:]
    assert "2 known before" in result.stdout


def test_import_dry_run_sends_nothing_and_json_has_everything() -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "import", "--from", "crontab", "-", "--dry-run",
                 "-o", "json", "-z", "UTC", input=TAB)  # fmt: skip
    assert result.exit_code == 1
    (report,) = json.loads(result.stdout)["items"]
    assert [item["line"] for item in report["imported"]] == [2, 4]
    assert [item["line"] for item in report["refused"]] == [3]
    assert [item["line"] for item in report["notes"]] == [1]


def test_import_into_nowhere_is_exit_6_not_a_list_of_refusals() -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "import", "--from", "crontab", "-", input=TAB)
    assert result.exit_code == 6
    assert "refused:" not in result.stderr


@pytest.mark.parametrize("option", [["-z", "Mars/Olympus"], ["--prefix", "A B"], ["-N", "A"]])
def test_import_checks_its_options(option: list[str]) -> None:
    assert run("jobs", "import", "--from", "crontab", "-", *option, input=TAB).exit_code == 2


def test_host_zone(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    assert host_zone({}, tmp_path) is None
    (tmp_path / "etc/timezone").write_text("Europe/Madrid\n")
    assert host_zone({}, tmp_path) == "Europe/Madrid"
    zones = tmp_path / "usr/share/zoneinfo/Asia"
    zones.mkdir(parents=True)
    (zones / "Tokyo").write_bytes(b"")
    (tmp_path / "etc/localtime").symlink_to(zones / "Tokyo")
    assert host_zone({}, tmp_path) == "Asia/Tokyo"
    assert host_zone({"TZ": ":Africa/Cairo"}, tmp_path) == "Africa/Cairo"
    assert host_zone({"TZ": "<+03>-3"}, tmp_path) == "Asia/Tokyo"


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
    assert run("instances", "get", "nonsense").exit_code == 2


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
        assert stub.requests[1].json["trigger"] == {"every": "90s"}
        assert run("--server", stub.url, "jobs", "next", "tick", "-n", "2").output == result.output


def test_cluster_status() -> None:
    node = {"id": "n1", "role": "leader", "http": "127.0.0.1:7401", "alive": True, "applied_index": 5,
            "commit_index": 5, "lag": 0, "clock_offset_ms": None, "running": 1, "slots": 8,
            "version": "0.1.0"}  # fmt: skip
    with serve(lambda r: (200, {"leader": "n1", "term": 3, "nodes": [node]})) as stub:
        result = run("--server", stub.url, "cluster", "status")
    assert result.output.splitlines()[0] == "n1 leads, term 3, 5 entries committed"
    assert "1/8" in result.output
    with serve(lambda r: (200, {"leader": None, "term": 3, "nodes": [node]})) as stub:
        assert run("--server", stub.url, "cluster", "status").output.startswith("no leader at the moment\n")


def test_node_says_what_is_wrong_in_one_line() -> None:
    result = run("node", "--id", "N1", "--data", "d")
    assert result.exit_code == 1  # like everything that keeps a node from starting
    assert result.stderr.startswith("raftsched: id 'N1' is not possible")
    assert result.stderr.count("\n") == 1
