"""`jobs apply`: which files it reads, what it asks and sends, what it deletes, and what it says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.stub_server import Reply, Request, problem, serve
from tests.unit.cli.house import JOB, run

ETAG = f'"{JOB["id"]}.3"'
GONE = {**JOB, "id": "0d3k5xw2a9f5m", "name": "gone", "namespace": "x"}
COMPARE = "/v1/jobs:compare?consistency=leader"


def answering(
    results: dict[str, str], more: Callable[[Request], Reply | None] = lambda _: None
) -> Callable[[Request], Reply]:
    """Answers as a cluster that says so of each job by its name: "unchanged" where nothing is said. `more`: what it is
    asked first."""

    def answer(request: Request) -> Reply:
        found = more(request)
        if found is not None:
            return found
        if request.path in (COMPARE, COMPARE.partition("?")[0]):  # a dry run takes what a node has
            items = []
            for job in request.json:
                result = results.get(job["name"], "unchanged")
                items.append({"result": result, **({"etag": ETAG} if result in ("changed", "unchanged") else {})})
            return 200, {"items": items}
        if request.path.startswith("/v1/jobs?"):
            return 200, {"items": [JOB, GONE], "next": None}
        if request.path.endswith("/compare"):
            return 200, {"result": results.get(request.path.split("/")[-2], "unchanged"), "before": {}, "after": {}}
        name = request.path.rpartition("/")[2]
        if request.method == "PUT" and results.get(name) == "refused":
            return problem(422, "invalid-job", "no")
        if request.method == "PUT" and results.get(name) == "created":
            return 201, {**JOB, "name": name}
        return 200, {**JOB, "name": name, "revision": 4} if request.method == "PUT" else JOB

    return answer


def sent(requests: list[Request], *methods: str) -> list[tuple[str, str, dict[str, str]]]:
    """Method, last part of the path, and conditions."""
    return [
        (r.method, r.path.rpartition("/")[2], {k: v for k, v in r.headers.items() if k.startswith("if-")})
        for r in requests
        if r.method in (methods or ("PUT", "DELETE"))
    ]


def test_what_differs_is_put_as_it_was_compared_and_the_rest_is_not() -> None:
    names = [f"j{number}" for number in range(1_200)]
    results = {"j3": "changed", "j4": "refused", "j1100": "created"}
    text = json.dumps([{"name": name} for name in names])
    with serve(answering(results)) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input=text)
        asked = [(request.method, request.path) for request in stub.requests]
    assert asked[:2] == [("POST", COMPARE)] * 2
    assert sorted(sent(stub.requests), key=str) == [
        ("PUT", "j1100", {"if-none-match": "*"}),
        ("PUT", "j3", {"if-match": ETAG}),
        ("PUT", "j4", {"if-match": ETAG}),
    ]
    assert len(asked) == 2 + 3 + 1, "and what is there of the one that was refused"
    told = {"j3": "changed", "j1100": "created"}
    said = [f"{told.get(name, 'unchanged')}: {name}\n" for name in names if name != "j4"]
    assert (result.stdout, result.stderr) == ("".join(said), "refused: j4: no (stdin: item 5)\n")
    assert result.exit_code == 1


def test_nodes_of_earlier_versions_are_asked_job_by_job() -> None:
    def earlier(request: Request) -> Reply | None:
        if request.path == COMPARE:
            return problem(405, "method-not-allowed", "no")
        if request.method == "GET":
            return problem(404, "not-found", "no") if request.path.endswith("/new") else (200, JOB)
        if "if-match" in request.headers:
            return problem(400, "invalid-parameter", 'If-Match must be one ETag as it was answered, such as "3".')
        return (201, JOB) if request.path.endswith("/new") else (200, JOB)

    text = "name: tick\n---\nname: new\n---\nname: paused\nsuspended: true\n"
    with serve(answering({}, earlier)) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input=text)
    assert result.output == "unchanged: tick\ncreated: new\nunchanged: paused\n"
    assert sorted(sent(stub.requests), key=str) == [
        ("PUT", "new", {"if-none-match": "*"}),
        ("PUT", "paused", {}),
        ("PUT", "tick", {"if-match": ETAG}),
        ("PUT", "tick", {}),
    ]


@pytest.mark.parametrize("audited", [True, False])
def test_who_changed_a_job_meanwhile_is_told(audited: bool) -> None:
    stale = problem(412, "stale-revision", "The job is at revision 5 now; read it again.")

    def raced(request: Request) -> Reply | None:
        if request.method == "PUT":
            return stale
        if request.path.startswith("/v1/audit"):
            assert f"resource={JOB['id']}" in request.path
            return (200, {"items": [{"actor": "web-ci"}]}) if audited else problem(403, "forbidden", "no")
        if request.method == "GET" and request.path.endswith("/new"):
            return problem(404, "not-found", "no")
        return (200, {**JOB, "revision": 5}) if request.method == "GET" else None

    with serve(answering({"tick": "changed", "new": "created"}, raced)) as stub:
        words = ("--server", stub.url, "jobs", "apply", "-f", "-")
        result = run(*words, input="name: tick\n---\nname: same\n---\nname: new\n")
        shown = run(*words, "-o", "json", input="name: tick\n")
    who = "changed meanwhile by web-ci" if audited else "changed meanwhile"
    why = f"{who}, it is at revision 5; run again"
    assert result.exit_code == 4, "a conflict"
    assert result.stdout == "unchanged: same\n"
    assert result.stderr.splitlines() == [
        f"refused: tick: {why} (stdin: line 1)",
        "refused: new: deleted meanwhile; run again (stdin: line 5)",
    ]
    where = {"namespace": "default", "name": "tick"}
    told = {**where, "result": "refused", "reason": why, "file": "stdin: line 1"}
    assert json.loads(shown.stdout) == {"items": [told]}


@pytest.mark.parametrize("earlier", [False, True])
def test_an_answer_that_was_lost_is_no_conflict(earlier: bool) -> None:
    """A node did what it was asked and ended; the next one refuses the same request. `earlier`: both are of a version
    that compares one job at a time."""
    put = threading.Event()

    def lost(request: Request) -> Reply | None:
        request.path = request.path.removeprefix("/second")
        if earlier and request.path == COMPARE:
            return problem(405, "method-not-allowed", "no")
        if earlier and request.method == "GET":
            return problem(404, "not-found", "no")
        if earlier and request.path.endswith("/compare"):
            return 200, {"result": "unchanged"}
        if request.method == "PUT":
            first = not put.is_set()
            put.set()
            return (0, b"") if first else problem(412, "exists", "The name exists.")
        if request.path == COMPARE and put.is_set():
            return 200, {"items": [{"result": "unchanged", "etag": ETAG}]}
        return None

    with serve(answering({"tick": "created"}, lost)) as stub:
        servers = f"{stub.url},{stub.url}/second"  # as two addresses
        result = run("--server", servers, "jobs", "apply", "-f", "-", input="name: tick\n")
    assert (result.exit_code, result.output) == (0, "created: tick\n")
    assert len(sent(stub.requests)) == 2


def test_a_node_that_pauses_nothing_with_a_condition_is_asked_to() -> None:
    def answer(request: Request) -> Reply | None:
        return (200, {**JOB, "state": "SUSPENDED"}) if request.path.endswith("/pause") else None

    with serve(answering({"tick": "changed"}, answer)) as stub:
        text = "name: tick\nsuspended: true\n"
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input=text)
    assert result.output == "changed: tick\n"
    assert sent(stub.requests, "PUT", "POST")[1:] == [
        ("PUT", "tick", {"if-match": ETAG}),
        ("POST", "pause", {"if-match": ETAG.replace(".3", ".4")}),
    ]


def test_several_are_sent_at_once_but_those_that_wait_for_others() -> None:
    together = threading.Barrier(8, timeout=30)
    under_way: set[str] = set()
    beside: dict[str, set[str]] = {}

    def answer(request: Request) -> Reply | None:
        if request.method == "PUT":
            name = request.path.rpartition("/")[2]
            under_way.add(name)
            if name.startswith("j"):
                together.wait()
            beside[name] = under_way - {name}
            under_way.discard(name)
        return None

    follows = {"trigger": {"after": {"jobs": ["j1"]}}}
    jobs: list[dict[str, Any]] = [{"name": f"j{number}"} for number in range(8)]
    jobs += [{"name": "after", **follows}, {"name": "other", **follows}]
    with serve(answering({job["name"]: "changed" for job in jobs}, answer)) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input=json.dumps(jobs))
    assert result.stdout == "".join(f"changed: {job['name']}\n" for job in jobs), "as they stand in the file"
    assert (beside["after"], beside["other"]) == (set(), set())
    assert [name for _, name, _ in sent(stub.requests)][-2:] == ["after", "other"]


def test_what_was_done_is_told_when_the_cluster_is_lost() -> None:
    def answer(request: Request) -> Reply | None:
        lost = request.method == "PUT" and request.path.endswith("/b")
        return problem(503, "disk-full", "The disk is full.") if lost else None

    jobs = [{"name": "a"}, {"name": "b", "conditions": [{}]}, {"name": "c"}]
    with serve(answering({job["name"]: "changed" for job in jobs}, answer)) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input=json.dumps(jobs))
    assert (result.exit_code, result.stdout) == (6, "changed: a\n")
    assert "c" not in [name for _, name, _ in sent(stub.requests)], "not tried"


def test_check_sends_nothing_when_one_would_be_refused() -> None:
    def refused(request: Request) -> Reply | None:
        alone = request.path.endswith("/bad/compare")
        return problem(403, "forbidden", "Not in x.") if alone else None

    text = "name: a\n---\nname: bad\n---\nname: same\n"
    results = {"a": "changed", "bad": "refused"}
    with serve(answering(results, refused)) as stub:
        words = ("--server", stub.url, "jobs", "apply", "-f", "-", "--check")
        result = run(*words, input=text)
        assert (result.exit_code, result.stdout, sent(stub.requests)) == (5, "", [])
        assert result.stderr.splitlines() == [
            "refused: bad: Not in x. (stdin: line 3)",
            "nothing was sent: 2 other jobs were not sent either, as --check wants it",
        ]
        shown = json.loads(run(*words, "-o", "json", input=text).stdout)["items"]
        assert [one["result"] for one in shown] == ["not sent", "refused", "not sent"]
        good = run(*words, input="name: a\n---\nname: same\n")
        assert (good.exit_code, good.stdout) == (0, "changed: a\nunchanged: same\n")
        pruned = run(*words, *_PRUNE[:2], "a=b", "--prune-max", "9", "--yes", input="name: bad\nlabels: {a: b}\n")
        assert (pruned.exit_code, sent(stub.requests, "DELETE")) == (5, [])


def test_directories_that_never_end_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.joinpath(*["d"] * 600).mkdir(parents=True)
    refused = run("jobs", "apply", "-f", str(folder))
    assert (refused.exit_code, "directories deep" in refused.stderr) == (2, True)


def test_directories_are_read_with_those_in_them(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("name: b\n---\nname: c\nnamespace: x\n")
    (tmp_path / "a.json").write_text('{"name": "a"}')
    (tmp_path / "notes.txt").write_text("no job")
    team = tmp_path / "a" / "team"
    team.mkdir(parents=True)
    (team / "d.yml").write_text("name: d\n")
    (team / "again").symlink_to(tmp_path)
    (team / "self").symlink_to(team)
    (team / "e.yaml").symlink_to(tmp_path / ".kept" / "e.yaml")
    for hidden in (".git", ".kept"):
        (tmp_path / hidden).mkdir()
        (tmp_path / hidden / "e.yaml").write_text("name: e\n")
    (tmp_path / ".b.yaml.swp.yaml").write_text("no job")
    mounted = team / "mounted"  # as a ConfigMap is
    (mounted / "..2026_11_30").mkdir(parents=True)
    (mounted / "..2026_11_30" / "f.yaml").write_text("name: f\n")
    (mounted / "..data").symlink_to("..2026_11_30")
    (mounted / "f.yaml").symlink_to("..data/f.yaml")
    names = dict.fromkeys("abcdef", "created")
    with serve(answering(names)) as stub:
        words = ("--server", stub.url, "jobs", "apply", "-f", str(tmp_path))
        result = run(*words)
        assert result.output == "created: d\ncreated: e\ncreated: f\ncreated: a\ncreated: b\ncreated: x/c\n"
        count = len(stub.requests)

        def refused(text: str) -> str:
            (team / "z.yaml").write_text(text)
            found = run(*words)
            assert (found.exit_code, len(stub.requests)) == (2, count)
            return found.stderr

        assert f"{tmp_path}/a.json: item 1: a is there already, at {team}/z.yaml: line 1" in refused("name: a\n")
        assert f"{team}/z.yaml: line 2: 'No Such' is not a job name" in refused("---\nname: No Such\n")
        assert f"{team}/z.yaml is not YAML" in refused("a: [\n")
        (team / "z.yaml").unlink()
        (team / "z.yaml").symlink_to("nowhere")
        assert f"cannot read {team}/z.yaml: no such file" in run(*words).stderr
    missing = run("jobs", "apply", "-f", str(tmp_path / "none.yaml"))
    assert (missing.exit_code, "cannot read" in missing.stderr) == (2, True)


def test_what_had_expired_is_not_started_again() -> None:
    with serve(lambda r: (200, JOB)) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", input=json.dumps({**JOB, "state": "EXPIRED"}))
    assert (result.exit_code, stub.requests) == (0, [])
    assert result.stderr == "left out: tick: it had expired where it comes from\n"


_FILE = "name: tick\nlabels: {app: shop}\n"
_PRUNE = ("--prune", "--label", "app=shop")


def test_prune_deletes_what_the_files_do_not_have_at_the_revision_it_showed() -> None:
    with serve(answering({"tick": "changed"})) as stub:
        words = ("--server", stub.url, "jobs", "apply", "-f", "-", *_PRUNE)
        result = run(*words, "--yes", input=_FILE)
        assert result.stdout == "changed: tick\ndeleted: x/gone\n"
        assert sent(stub.requests, "DELETE") == [("DELETE", GONE["id"], {"if-match": f'"{GONE["id"]}.3"'})]
        assert "label=app%3Dshop" in stub.requests[1].path
        stub.requests.clear()
        dry = run(*words, "--dry-run", input=_FILE)
        assert dry.stdout == "would be changed: tick\nwould be deleted: x/gone\n"
        assert not sent(stub.requests)


@pytest.mark.parametrize("status", [404, 412])
def test_prune_leaves_what_was_changed_meanwhile(status: int) -> None:
    def raced(request: Request) -> Reply | None:
        if request.method == "DELETE":
            return problem(status, {404: "not-found", 412: "stale-revision"}[status], "no")
        return problem(403, "forbidden", "no") if request.path.startswith("/v1/audit") else None

    with serve(answering({}, raced)) as stub:
        result = run("--server", stub.url, "jobs", "apply", "-f", "-", *_PRUNE, "--yes", input=_FILE)
    if status == 404:
        assert (result.exit_code, result.stdout) == (0, "unchanged: tick\ndeleted: x/gone\n"), "by somebody else"
    else:
        assert (result.exit_code, result.stdout) == (4, "unchanged: tick\n")
        assert result.stderr == "refused: x/gone: changed meanwhile, it is at revision 3; run again\n"


def test_prune_asks_first_and_stops_at_a_refusal(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(_FILE)
    words = ("jobs", "apply", "-f", str(file), *_PRUNE)
    with serve(answering({"tick": "changed"})) as stub:
        result = run("--server", stub.url, *words, input="n\n")
        assert result.exit_code == 1
        assert "not in the files: x/gone (SCHEDULED)" in result.stderr
        assert not sent(stub.requests, "DELETE")
        assert run("--server", stub.url, *words[:-2], input="").exit_code == 2  # no label
        file.write_text("name: tick\n")
        lacking = run("--server", stub.url, *words)
        assert "lacks the label app=shop" in lacking.stderr
    with serve(answering({"tick": "refused"})) as stub:
        file.write_text(_FILE)
        assert run("--server", stub.url, *words, "--yes").exit_code == 1
        assert not sent(stub.requests, "DELETE")


@pytest.mark.parametrize("text", ["", " \n", "# rendered by a template\n", "[]", '{"items": []}', "---\n---\n", "null"])
def test_prune_with_no_job_in_the_files_has_to_be_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "jobs.yaml").write_text(text)
    (tmp_path / "empty").mkdir()
    for source in ("-", str(tmp_path / "jobs.yaml"), str(tmp_path), str(tmp_path / "empty")):
        with serve(answering({})) as stub:
            words = ("--server", stub.url, "jobs", "apply", "-f", source, *_PRUNE, "--yes")
            refused = run(*words, input=text)
            assert (refused.exit_code, stub.requests) == (2, [])
            assert "delete all jobs with the label app=shop. Say --allow-empty" in " ".join(refused.stderr.split())
            assert run(*words, "--allow-empty", input=text).exit_code == 1, "all of them are more than half"
            assert not sent(stub.requests)
            meant = run(*words, "--allow-empty", "--prune-max", "100%", input=text)
            assert (meant.exit_code, meant.stdout) == (0, "deleted: tick\ndeleted: x/gone\n")


@pytest.mark.parametrize(
    ("kept", "most", "refused"),
    [
        (5, None, False), (4, None, True), (4, "60%", False), (4, "59%", True), (4, "6", False), (4, "5", True),
        (10, "0", False), (9, "0", True), (9, "0%", True),
    ],
)  # fmt: skip
def test_prune_deletes_no_more_than_it_may(kept: int, most: str | None, refused: bool) -> None:
    there = [{**JOB, "name": f"j{number}", "id": f"0d3k5xw2a9f{number}m"} for number in range(10)]

    def labelled(request: Request) -> Reply | None:
        return (200, {"items": there, "next": None}) if request.path.startswith("/v1/jobs?") else None

    text = json.dumps([{"name": f"j{number}", "labels": {"app": "shop"}} for number in range(kept)])
    more = () if most is None else ("--prune-max", most)
    with serve(answering({"j0": "changed"}, labelled)) as stub:
        words = ("--server", stub.url, "jobs", "apply", "-f", "-", *_PRUNE, *more)
        result = run(*words, "--yes", input=text)
        assert len(sent(stub.requests)) == (0 if refused else 1 + 10 - kept)
        dry = run(*words, "--dry-run", input=text)
    assert result.exit_code == dry.exit_code == (1 if refused else 0)
    assert dry.stdout.count("would be deleted") == 10 - kept, "what it would do is told all the same"
    if refused:
        says = f"--prune would delete {10 - kept} of the 10 jobs with the label app=shop, more than --prune-max"
        assert says in result.stderr
        assert f"say --prune-max {10 - kept}\n" in result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--prune-max", "x", *_PRUNE), "neither a number of jobs nor a share"),
        (("--prune-max", "101%", *_PRUNE), "neither a number of jobs nor a share"),
        (("--prune-max", "5"), "go with --prune"),
        (("--allow-empty",), "go with --prune"),
    ],
)
def test_options_of_prune_that_mean_nothing_are_refused(words: tuple[str, ...], says: str) -> None:
    result = run("jobs", "apply", "-f", "-", *words, input=_FILE)
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr
