"""What is said of a command, a name or an argument that is none: the one that is meant."""

from __future__ import annotations

from typing import Any, cast

import click
import pytest

from raftsched.cli.main import cli
from raftsched.cli.words import THERE, meant_by
from tests.support.stub_server import Reply, Request, Stub, problem, serve
from tests.unit.cli.house import ID, run

JOBS = [{"id": ID, "namespace": "billing", "name": "report-3"}, {"id": ID, "namespace": "default", "name": "restore"}]


def hint(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 2
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "words, meant",
    [
        ("ps", "raftsched runs list --state RUNNING"),
        ("job list", "raftsched jobs"),
        ("rm x", "raftsched jobs delete JOB"),
        ("crontab -l", "raftsched jobs import --from crontab FILE"),
        ("log", "raftsched logs JOB"),
        ("jobs trigger x", "raftsched jobs run JOB"),
        ("jobs ls", "raftsched jobs list"),
        ("runs tail x", "raftsched logs -f RUN"),
        ("instances tail x", "raftsched logs -f RUN"),
        ("queues describe x", "raftsched queues get"),
        ("secrets add x", "raftsched secrets set"),
        ("tokens rm x", "raftsched tokens revoke"),
        ("cluster settings show", "raftsched cluster settings get"),
        ("dctor", "doctor"),
        ("jobs lst", "list"),
        ("help jobs lst", "list"),
        ("cluster statsu", "status"),
        ("backup verfy", "verify"),
    ],
)
def test_a_command_that_is_none(words: str, meant: str) -> None:
    assert hint(*words.split(" ")).endswith(f"Did you mean '{meant}'?")


def test_what_is_near_to_nothing_gets_no_hint() -> None:
    assert hint("qqq") == "Error: No such command 'qqq'."


def below(words: list[str]) -> tuple[click.Command, list[str]]:
    """Returns the command that these words name, and the words after it."""
    command, left = cast(click.Command, cli), list(words)
    while left and isinstance(command, click.Group):
        found = command.get_command(click.Context(command), left[0])
        if found is None:
            break
        command, left = found, left[1:]
    return command, left


@pytest.mark.parametrize("meant", sorted({meant for words in THERE.values() for meant in words.values()}))
def test_each_command_that_is_given_for_others_words_is_there(meant: str) -> None:
    command, left = below(meant.split(" "))
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert [word for word in left if not word.isupper() and word not in {"crontab"} and word not in options] == []


def test_no_word_of_others_hides_a_command() -> None:
    names = cli.list_commands(click.Context(cli))
    assert [name for name in names if meant_by(name, names, "") != name] == []


def unknown(request: Request) -> Reply:
    if request.path.startswith("/v1/jobs?"):
        return 200, {"items": JOBS, "next": None}
    if request.path.startswith("/v1/queues?"):
        return 200, {"items": [{"name": "mail"}, {"name": "reports"}], "next": None}
    if request.path.startswith("/v1/queues/"):
        return problem(404, "not-found", f'The queue "{request.path.rpartition("/")[2]}" has no limits.')
    return problem(404, "not-found", "no")


def asked(stub: Stub) -> list[str]:
    return [request.path.partition("?")[0] for request in stub.requests]


@pytest.mark.parametrize(
    "words, meant",
    [
        (["jobs", "get", "report-3"], "billing/report-3"),  # it is in another namespace
        (["jobs", "get", "billing/reprot-3"], "billing/report-3"),
        (["jobs", "get", "biling/report-3"], "billing/report-3"),
        (["jobs", "next", "resotre"], "restore"),
        (["logs", "report-3"], "billing/report-3"),
        (["runs", "list", "--job", "report-3"], "billing/report-3"),
        (["queues", "get", "mial"], "mail"),
    ],
)
def test_a_name_that_is_none(words: list[str], meant: str) -> None:
    with serve(unknown) as stub:
        result = run("--server", stub.url, *words)
    assert result.exit_code == 3
    assert result.stderr.endswith(f"Did you mean {meant}?\n")
    assert len(stub.requests) == 2  # the command's own, and one for the hint


def test_of_several_each_has_its_hint() -> None:
    with serve(unknown) as stub:
        result = run("--server", stub.url, "jobs", "pause", "report-3", "zzz")
    assert result.exit_code == 3
    lines = result.stderr.splitlines()
    assert lines[0].endswith("Did you mean billing/report-3?")
    assert lines[1] == "raftsched: there is no job 'zzz'; see 'raftsched jobs list'"


@pytest.mark.parametrize("status", [403, 500, 0])
def test_a_hint_that_cannot_be_had_is_left_out(status: int) -> None:
    def answer(request: Request) -> Reply:
        if "?" in request.path:
            return status, {"code": "forbidden", "detail": "no", "status": status, "title": "T", "errors": []}
        return problem(404, "not-found", "no")

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "get", "report-3")
    assert (result.exit_code, result.stderr) == (
        3,
        "raftsched: there is no job 'report-3'; see 'raftsched jobs list'\n",
    )


def test_other_errors_ask_for_nothing_more() -> None:
    with serve(lambda request: problem(403, "forbidden", "report-3 is not yours")) as stub:
        assert run("--server", stub.url, "jobs", "get", "report-3").exit_code == 5
    assert asked(stub) == ["/v1/namespaces/default/jobs/report-3"]


@pytest.mark.parametrize(
    "words", [["jobs", "wait"], ["jobs", "wait", ""], ["logs", ""], ["jobs", "get"], ["runs", "get"]]
)
def test_an_argument_that_a_command_did_not_give(words: list[str]) -> None:
    """As of $(raftsched jobs run JOB -o name) that failed."""
    told = hint("--server", "http://127.0.0.1:1", *words)
    assert told.endswith("if a command in $(...) was to give it, that one gave nothing, and said why")


def test_what_a_job_runs_and_when_is_asked_for_in_words() -> None:
    assert hint("jobs", "create", "x", "--every", "10s").startswith("Error: Say what the job runs: one of --shell,")
    assert hint("jobs", "create", "x", "--shell", "date").startswith("Error: Say when the job is due: one of --cron,")


def test_nothing_on_stdin_is_said() -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "import", "-", input="")
    assert result.exit_code == 2
    assert "stdin is empty; if a command was to write it" in result.stderr


@pytest.mark.parametrize("words", [["jobs", "delete", "--all"], ["dlq", "purge", "--all"], ["dlq", "requeue", "--all"]])
def test_all_is_no_habit_that_does_something_to_all(words: list[str]) -> None:
    result = run("--server", "http://127.0.0.1:1", *words)
    assert result.exit_code == 2
    assert "--all means 'no limit' in lists" in result.stderr
    assert "--every-" in result.stderr


def test_an_edit_that_changes_the_name_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    job: dict[str, Any] = {
        "id": ID, "name": "tick", "namespace": "default", "state": "SCHEDULED", "revision": 3,
        "trigger": {"manual": True}, "handler": {"shell": "date"},
    }  # fmt: skip

    def answer(request: Request) -> Reply:
        if request.method in ("PUT", "PATCH"):
            return 200, {**job, "name": "tock"}
        return 200, job

    monkeypatch.setattr(click, "edit", lambda text, **_: text.replace("tick", "tock"))
    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "edit", "tick")
    assert (result.exit_code, result.output) == (0, "changed: tock, which was tick: it is renamed\n")
