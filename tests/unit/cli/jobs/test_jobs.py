"""The commands of jobs: lists, actions, create, apply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.stub_server import Request, problem, serve
from tests.unit.cli.house import BY_NAME, ID, INSTANCE, JOB, asked, routes, run

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
        "ENDED",
        "TOOK",
        "RUNNING",
        "OWNER",
        "ID",
    ]
    assert "cron 0 12 * * * Europe/Madrid" in table.output.splitlines()[1]
    assert "manual" in table.output.splitlines()[2]
    assert names.output == "tick\nbilling/x\n"
    assert json.loads(full.output) == {"items": [JOB, other], "next": None}


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
    assert stub.requests[1].headers["idempotency-key"]


def test_delete() -> None:
    with serve(routes({f"GET {BY_NAME}": JOB, f"DELETE /v1/jobs/{ID}": (204, None)})) as stub:
        assert run("--server", stub.url, "jobs", "delete", "tick").output == "deleted: tick\n"


@pytest.mark.parametrize(("ending", "words"), [(0, ""), (2, ", 2 running: asked to end")])
def test_delete_says_how_many_runs_are_ended(ending: int, words: str) -> None:
    answer = {"deleted": 1, "ending": ending}
    with serve(routes({f"GET {BY_NAME}": JOB, f"DELETE /v1/jobs/{ID}": answer})) as stub:
        assert run("--server", stub.url, "jobs", "delete", "tick").output == f"deleted: tick{words}\n"


@pytest.mark.parametrize("verb", ["pause", "resume", "expire", "delete"])
def test_what_was_done_for_programs(verb: str) -> None:
    """Each job as it is then, or, once deleted, as it was."""
    jobs = {name: {**JOB, "id": f"{name}1", "name": name} for name in ("a", "b")}
    way = "DELETE /v1/jobs/{}" if verb == "delete" else f"POST /v1/jobs/{{}}/{verb}"
    then = {name: job if verb == "delete" else {**job, "revision": 9} for name, job in jobs.items()}
    table: dict[str, Any] = {f"GET /v1/namespaces/default/jobs/{name}": job for name, job in jobs.items()}
    table |= {way.format(f"{name}1"): (204, None) if verb == "delete" else job for name, job in then.items()}
    with serve(routes(table)) as stub:
        one, all_ = ("--server", stub.url, "jobs", verb, "a"), ("--server", stub.url, "jobs", verb, "a", "none", "b")
        assert json.loads(run(*one, "-o", "json").stdout) == then["a"]
        assert "revision: 9" in run(*one, "-o", "yaml").stdout or verb == "delete"
        assert run(*one, "-o", "name").stdout == "a\n"
        several = run(*all_, "-o", "json")
        assert json.loads(several.stdout) == {"items": [then["a"], then["b"]]}
        assert several.exit_code == 3
        assert "none" in several.stderr
        assert run(*all_, "-o", "name").stdout == "a\nb\n"


def test_run_prints_the_instance() -> None:
    with serve(routes({f"GET {BY_NAME}": JOB, f"POST /v1/jobs/{ID}/run": (202, {"id": INSTANCE})})) as stub:
        assert run("--server", stub.url, "jobs", "run", "tick", "-o", "name").output == INSTANCE + "\n"
        assert run("--server", stub.url, "jobs", "run", "tick", "--params", "{").exit_code == 2


def test_numbers_that_json_does_not_have_are_refused_and_named() -> None:
    with serve(routes({f"GET {BY_NAME}": JOB})) as stub:
        result = run("--server", stub.url, "jobs", "run", "tick", "--params", '{"rates": [1, NaN]}')
        assert asked(stub) == [f"GET {BY_NAME}"]
    assert result.exit_code == 1
    assert "params.rates[1] is nan, which JSON does not have; give null or a text for it" in result.stderr


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
        (["--in", "5m", "--limit", "memory=512MiB", "--limit", "cpu=60s", "--limit", "open_files=64", "--", "a"],
         {"trigger": {"in": "5m"},
          "handler": {"exec": ["a"], "limits": {"memory": "512MiB", "cpu": "60s", "open_files": 64}}}),
        (["--cron", "@daily", "--calendar", "office", "--calendar-action", "move", "--template", "--", "a", "{due:%F}"],
         {"trigger": {"cron": "@daily", "calendar": "office", "calendar_action": "move"},
          "handler": {"exec": ["a", "{due:%F}"], "template": True}}),
        (["--in", "5m", "--python", "m:f", "--fresh"],
         {"trigger": {"in": "5m"}, "handler": {"python": "m:f", "fresh": True}}),
        (["a", "-N", "b", "--manual", "--python", "m:f", "--params", '{"x": 1}', "--env", "A=b=c", "--cwd", "/x",
          "--timeout", "1h", "--overlap", "allow", "--priority", "0", "--owner", "ana", "--label", "t=f",
          "--suspended", "--queue", "reports", "--max-concurrency", "3"],
         {"name": "a", "namespace": "b", "trigger": {"manual": True},
          "handler": {"python": "m:f", "env": {"A": "b=c"}, "cwd": "/x"}, "params": {"x": 1}, "timeout": "1h",
          "overlap": "allow", "priority": 0, "owner": "ana", "labels": {"t": "f"}, "suspended": True,
          "queue": "reports", "max_concurrency": 3}),
        (["--manual", "--concurrency-key", "{params.t}", "--concurrency-key-max", "2", "--concurrency-key-rate", "9/m",
          "--", "a"],
         {"namespace": "default", "trigger": {"manual": True}, "handler": {"exec": ["a"]},
          "concurrency": {"key": "{params.t}", "max": 2, "rate": {"count": 9, "per": "1m"}}}),
        (["-N", "b", "--manual", "--if-path", "/in/*.csv", "--if-path", "/go", "--if-http", "http://x/y",
          "--if-succeeded", "load=2h", "--if-succeeded", "a/load=1d", "--conditions-timeout", "5m", "--", "a"],
         {"namespace": "b", "trigger": {"manual": True}, "handler": {"exec": ["a"]}, "conditions_timeout": "5m",
          "conditions": [{"path": "/in/*.csv"}, {"path": "/go"}, {"http": "http://x/y"},
                         {"job_succeeded": "b/load", "within": "2h"}, {"job_succeeded": "a/load", "within": "1d"}]}),
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


def test_a_job_is_created_by_its_name_and_namespace_apart() -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "create", "shop/tick", "--manual", "--shell", "true")
    assert result.exit_code == 2
    assert "'shop/tick' is no name alone; say the namespace apart: tick -N shop" in " ".join(result.stderr.split())


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


def test_killing_all_that_match() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        if request.method == "GET":
            return 200, JOB
        more = "cursor" not in request.json
        refused = [] if more else [{"id": INSTANCE, "code": "illegal-transition", "detail": "It is SUCCEEDED."}]
        said = {
            "matched": 2,
            "killed": 2 - len(refused),
            "refused": refused,
            "sample": [],
            "next": "c" if more else None,
        }
        return 200, said

    with serve(answer) as stub:
        result = run("--server", stub.url, "instances", "kill", "--job", "tick", "--state", "waiting", "--from", "T")
        dry = run("--server", stub.url, "instances", "kill", "-N", "default", "--dry-run")
        for wrong in ([], [INSTANCE, "--job", "tick"], ["--state", "WAITING"], [INSTANCE, "--dry-run"]):
            assert run("--server", stub.url, "instances", "kill", *wrong).exit_code == 2, wrong
    assert (result.exit_code, result.stdout) == (4, "asked to end: 3\n")
    assert "It is SUCCEEDED." in result.stderr
    assert dry.stdout == "would be asked to end: 4\n"
    wanted = {"job": ID, "state": ["WAITING"], "from": "T"}
    bodies = [r.json for r in stub.requests if r.method == "POST"]
    assert bodies[0] == {"filter": wanted, "dry_run": False}
    assert bodies[1] == {"filter": wanted, "dry_run": False, "cursor": "c"}
    assert bodies[2] == {"filter": {"namespace": "default"}, "dry_run": True}


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
        (["--shell", "x"], "Say when the job is due: one of --cron, --rrule, --every, --at, --in, --manual"),
        (["--in", "1m", "--manual", "--shell", "x"], "--in and --manual exclude each other"),
        (["--in", "1m"], "Say what the job runs: one of --shell, --python, --http, --call, -- COMMAND"),
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
        if request.method == "POST":
            return problem(404, "not-found", "no")
        if request.path.endswith("tick"):
            return (201, JOB) if request.method == "PUT" else problem(404, "not-found", "no")
        return 200, JOB if request.method == "GET" else {**JOB, "revision": 4}

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input=text.encode())
    assert result.output == "created: tick\nchanged: x/b\n"
    puts = sorted((request for request in stub.requests if request.method == "PUT"), key=lambda put: put.path)
    assert [request.path for request in puts] == [BY_NAME, "/v1/namespaces/x/jobs/b"]
    assert puts[0].json == {k: JOB[k] for k in ("name", "namespace", "trigger", "handler")}


def test_apply_goes_on_after_a_refusal_and_ends_with_its_code() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        if request.method == "POST":
            return problem(404, "not-found", "no")
        refused = request.path.endswith("/a") and request.method == "PUT"
        return problem(409, "illegal-transition", "no") if refused else (200, JOB)

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input='{"name": "a"}\n{"name": "tick"}\n')
    assert result.exit_code == 4
    assert (result.stdout, result.stderr) == ("unchanged: tick\n", "refused: a: no (stdin: line 1)\n")


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "stdin is empty"),
        ("{", "neither JSON nor JSON lines"),
        ('{"name": "a"}\n{oops}\n', "line 2"),
        ("[1]", "item 1 is not a job"),
        ("3", "is not a job"),
        ('{"trigger": {}}', "item 1 has no name"),
        ('{"name": "A"}', "not a job name"),
    ],
)
def test_apply_of_a_bad_file_sends_nothing(text: str, message: str) -> None:
    result = run("--server", "http://127.0.0.1:1", "jobs", "apply", "-f", "-", input=text)
    assert result.exit_code == 2
    assert message in result.stderr


# ---------------------------------------------------------------- import
