"""`raftsched tokens`, `raftsched audit`, and where a token comes from."""

from __future__ import annotations

import stat
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from raftsched.cli.auth.audit_chain import hash_of
from raftsched.cli.dev.dev_command import _client
from raftsched.cli.dev.state import Member
from raftsched.client.contexts import contexts_file
from tests.support.stub_server import Request, Stub, problem, serve
from tests.unit.cli.house import routes, run

ID = "0d3k5xw2a9f4m"
TOKEN = {
    "id": ID, "name": "web-ci", "role": "editor", "namespaces": ["web"], "state": "active", "created_by": "root",
    "created_at": "2030-01-01T00:00:00.000Z", "expires_at": None, "revoked_at": None, "revoked_by": None,
}  # fmt: skip
RECORD = {
    "index": 7, "at": "2030-01-01T00:00:00.000Z", "kind": "change", "actor": "root", "token": ID,
    "operation": "queues_put", "resource": "/v1/queues/mails", "namespace": None, "subject": None, "job": None,
    "count": 1, "remote": "10.0.0.9",
}  # fmt: skip
LIST = {"items": [TOKEN], "next": None}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("RAFTSCHED_SERVER", "RAFTSCHED_CONTEXT", "RAFTSCHED_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def sent(stub: Stub) -> list[str | None]:
    found = [request.headers.get("authorization") for request in stub.requests]
    stub.requests.clear()
    return found


def test_a_token_comes_from_the_nearest_place() -> None:
    with serve(lambda r: (200, {"items": [], "next": None})) as stub:
        at = ("--server", stub.url)
        assert run(*at, "jobs", "list").exit_code == 0
        assert run(*at, "jobs", "list", env={"RAFTSCHED_TOKEN": "rs_env"}).exit_code == 0
        assert run(*at, "--token", "rs_said", "jobs", "list", env={"RAFTSCHED_TOKEN": "rs_env"}).exit_code == 0
        assert sent(stub) == [None, "Bearer rs_env", "Bearer rs_said"]
        set_ = run("contexts", "set", "prod", stub.url, "--use", "--token-file", "-", input="rs_kept\n")
        assert set_.exit_code == 0, set_.output
        assert run("jobs", "list").exit_code == 0
        assert run("--context", "prod", "jobs", "list").exit_code == 0
        assert run("jobs", "list", env={"RAFTSCHED_CONTEXT": "prod"}).exit_code == 0
        assert run("jobs", "list", env={"RAFTSCHED_TOKEN": "rs_env"}).exit_code == 0
        assert sent(stub) == ["Bearer rs_kept"] * 3 + ["Bearer rs_env"]


def test_a_token_is_for_the_servers_of_its_context_only() -> None:
    with serve(lambda r: (200, {"items": [], "next": None})) as stub:
        run("contexts", "set", "prod", "http://127.0.0.1:1", "--use", "--token-file", "-", input="rs_kept")
        for words in (
            ("--server", stub.url, "jobs", "list"),
            ("--context", "prod", "jobs", "list", "--server", stub.url),
        ):
            assert run(*words).exit_code == 0
        assert run("jobs", "list", env={"RAFTSCHED_SERVER": stub.url}).exit_code == 0
        assert sent(stub) == [None] * 3
        run("contexts", "set", "prod", stub.url)
        assert "rs_kept" not in contexts_file().read_text(), "another address: the token was for the first"


def test_contexts_are_for_their_owner() -> None:
    run("contexts", "set", "prod", "http://127.0.0.1:1", "--token-file", "-", input="rs_kept")
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    assert run("contexts", "set", "prod", "http://127.0.0.1:1", "--use").exit_code == 0
    assert 'token = "rs_kept"' in contexts_file().read_text()
    assert "rs_kept" not in run("contexts", "list", "-o", "json").output
    for text in ("", " \n", "a b", "\x00", "é"):
        assert run("contexts", "set", "x", "http://h:1", "--token-file", "-", input=text).exit_code == 2


@pytest.mark.parametrize(("status", "code"), [(401, "unauthorized"), (403, "forbidden")])
def test_what_is_not_allowed_is_exit_code_five_with_what_to_do(status: int, code: str) -> None:
    with serve(lambda r: problem(status, code, "This needs the role editor.")) as stub:
        result = run("--server", stub.url, "jobs", "list")
    assert result.exit_code == 5
    assert "This needs the role editor." in result.stderr
    assert ("RAFTSCHED_TOKEN" in result.stderr) == (status == 401)


def test_list_get_and_revoke_by_name() -> None:
    table: dict[str, Any] = {
        "GET /v1/tokens": LIST, f"GET /v1/tokens/{ID}": TOKEN, f"DELETE /v1/tokens/{ID}": (204, None),
    }  # fmt: skip
    by_path = routes(table)
    with serve(lambda r: by_path(replace(r, path=r.path.partition("?")[0]))) as stub:
        at = ("--server", stub.url, "tokens")
        lines = run(*at, "list").stdout.splitlines()
        assert lines[1].split() == ["web-ci", "editor", "web", "-", "active", "-", "2030-01-01T00:00:00.000Z", "root"]
        assert run(*at, "list", "-o", "name").stdout == "web-ci\n"
        for ref in ("web-ci", ID):
            assert "editor" in run(*at, "get", ref).stdout
            assert run(*at, "revoke", ref).stdout == f"revoked: {ref}\n"
        assert run(*at, "revoke", "nobody").exit_code == 3


def test_the_list_has_the_queues_of_workers() -> None:
    gpu = {**TOKEN, "name": "gpu", "role": "worker", "namespaces": None, "queues": ["render", "train"]}
    found = {"items": [gpu, {**gpu, "name": "any", "queues": None}, {**TOKEN, "queues": None}], "next": None}
    with serve(lambda r: (200, found)) as stub:
        titles, *lines = run("--server", stub.url, "tokens", "list").stdout.splitlines()
    begin, end = titles.index("QUEUES"), titles.index("STATE")
    assert [line[begin:end].strip() for line in lines] == ["render, train", "all", "-"]


def test_create_prints_the_secret_alone() -> None:
    with serve(lambda r: (201, {**TOKEN, "secret": "rs_new"})) as stub:
        result = run(
            "--server", stub.url, "tokens", "create", "web-ci", "--role", "editor", "-N", "web", "-N", "shop",
            "--expires-at", "2031-01-01T00:00:00Z",
        )  # fmt: skip
        (request,) = stub.requests
    assert (result.stdout, result.exit_code) == ("rs_new\n", 0)
    assert "once" in result.stderr
    assert request.json == {
        "name": "web-ci", "role": "editor", "namespaces": ["web", "shop"], "expires_at": "2031-01-01T00:00:00Z",
    }  # fmt: skip
    assert request.headers["idempotency-key"]


FOUND = {
    "tokens": [{**TOKEN, "name": "planted", "role": "admin", "namespaces": None, "state": "revoked"}],
    "jobs": 3, "jobs_by": [{"by": None, "jobs": 2}, {"by": "planted", "jobs": 1}],
    "oidc": {"issuer": "https://evil.example", "state": "revoked"},
}  # fmt: skip


def test_bootstrap_makes_a_token_and_turns_them_on_with_it(tmp_path: Path) -> None:
    """In one request, with the hash of the secret only; and it says what it found."""

    def answer(request: Request) -> tuple[int, Any]:
        if request.headers.get("authorization") not in (None, "Bearer rl_here"):
            return problem(401, "unauthorized", "no")
        if request.method == "GET":
            return 200, LIST
        return 200, {"required": True, "token": {**TOKEN, "name": "root"}, "found": FOUND}

    with serve(answer) as stub:
        result = run("--server", stub.url, "tokens", "bootstrap")
        assert result.exit_code == 0
        secret = result.stdout.strip()
        assert (secret[:3], len(secret)) == ("rs_", 46)
        (request,) = stub.requests
        assert (request.method, request.path) == ("PUT", "/v1/cluster/access")
        hashed = sha256(secret.encode()).hexdigest()
        assert request.json == {"required": True, "admin": {"name": "root", "sha256": hashed}}
        assert "found: token planted (admin, made by root): revoked" in result.stderr
        assert "tokens of the issuer https://evil.example, which are not taken any more" in result.stderr
        assert "found: 3 jobs, which go on to run; of the newest 2 by nobody known, 1 by planted" in result.stderr
        stub.requests.clear()
        again = run("--server", stub.url, "tokens", "bootstrap", "--keep")
        assert stub.requests[0].json["keep"] is True
        assert again.stdout.strip() != secret
        stub.requests.clear()
        assert run("--server", stub.url, "tokens", "bootstrap", "--data", str(tmp_path)).exit_code == 1
        (tmp_path / "local.token").write_text("rl_here\n")
        for words in (("--server", stub.url), ()):
            (tmp_path / "local.url").write_text(f"{stub.url}\n")
            result = run(*words, "tokens", "bootstrap", "--data", str(tmp_path))
            assert (result.exit_code, len(result.stdout)) == (0, 47), result.output
            assert sent(stub) == ["Bearer rl_here", "Bearer rl_here"]
        (tmp_path / "local.token").write_text("rl_elsewhere\n")
        assert run("--server", stub.url, "tokens", "bootstrap", "--data", str(tmp_path)).exit_code == 5


def test_bootstrap_whose_answer_got_lost_is_known_by_its_token() -> None:
    shown: list[str] = []

    def answer(request: Request) -> tuple[int, Any]:
        if request.method == "PUT":
            shown.append(request.json["admin"]["sha256"])
            return problem(401, "unauthorized", "tokens are needed since the first try")
        token = (request.headers.get("authorization") or "").removeprefix("Bearer ")
        return (200, LIST) if sha256(token.encode()).hexdigest() in shown else problem(401, "unauthorized", "no")

    with serve(answer) as stub:
        result = run("--server", stub.url, "tokens", "bootstrap")
        assert (result.exit_code, result.stdout[:3]) == (0, "rs_")
        shown.clear()


def test_who_meets_a_locked_node_is_told_what_to_do() -> None:
    how = "This node is locked until there is an admin; make one on its machine: raftsched tokens bootstrap --data DIR"
    with serve(lambda r: problem(401, "locked", how)) as stub:
        result = run("--server", stub.url, "jobs", "list")
    assert (result.exit_code, result.stderr) == (5, f"raftsched: {how}\n")


def test_audit_asks_for_what_is_wanted() -> None:
    many = {**RECORD, "job": "j", "namespace": "n", "count": 3, "kind": "work"}
    with serve(lambda r: (200, {"items": [RECORD, many], "next": None})) as stub:
        words = ("--actor", "root", "-N", "n", "--kind", "work", "--from", "2030-01-01T00:00:00Z")
        result = run("--server", stub.url, "audit", *words)
        (request,) = stub.requests
    lines = result.stdout.splitlines()
    assert lines[1].split() == ["2030-01-01T00:00:00.000Z", "7", "root", "queues_put", "/v1/queues/mails", "10.0.0.9"]
    assert "n/j and 2 more" in lines[2]
    query = parse_qs(request.path.partition("?")[2])
    assert {"actor": ["root"], "namespace": ["n"], "kind": ["work"]}.items() <= query.items()


def test_a_copy_is_exported_verified_and_told_of(tmp_path: Path) -> None:
    note = {**RECORD, "change": None, "position": 0}
    note["hash"] = hash_of("", note)
    refused = {
        "first_at": "2030-01-01T00:00:00.000Z", "last_at": "2030-01-01T00:00:30.000Z", "status": 401, "method": "GET",
        "resource": "/v1/jobs", "actor": None, "remote": "10.0.0.9", "count": 2,
    }  # fmt: skip
    chain = {"index": 7, "change": {"head": note["hash"], "base": "", "count": 1}}
    chain |= {kind: {"head": "", "base": "", "count": 0} for kind in ("work", "job", "secret")}

    def answer(request: Request) -> tuple[int, Any]:
        if request.path.endswith("/chain"):
            return 200, chain
        if request.path.endswith("/refusals"):
            return 200, {"node": "n1", "items": [refused]}
        kind = parse_qs(request.path.partition("?")[2]).get("kind", ["change"])
        return 200, {"items": [note] * (kind == ["change"]), "next": None}

    file = tmp_path / "audit.jsonl"
    with serve(answer) as stub:
        audit = ("--server", stub.url, "audit")
        assert run(*audit, "verify", "--from", "2030-01-01T00:00:00Z").exit_code == 2
        file.touch()
        empty = run(*audit, "verify", str(file), "--wait", "0")
        assert (empty.exit_code, empty.stderr) == (1, f"raftsched: {file} is empty\n")
        assert run(*audit, "export", "--file", str(file)).exit_code == 0
        assert run(*audit, "verify", str(file), "--from", "2030-01-01").exit_code == 2
        told = run(*audit, "verify", str(file), "--wait", "0")
    assert told.exit_code == 0, told.output
    lines = [line.split(None, 1) for line in told.stdout.splitlines()]
    at = "2030-01-01T00:00:00.000Z"
    none = "0 notes in the copy, whole; the cluster has 0 newer ones, of 0 notes, whole; head -"
    assert dict(lines) == {
        "change": f"1 notes in the copy, whole, {at} to {at}; the cluster has 0 newer ones, of 1 notes, whole; head "
        f"{note['hash']}",
        **dict.fromkeys(("job", "secret", "work"), none),
        "refused": f"1 in the copy, whole, {at} to {at}; held against n1",
    }


def test_dev_shows_each_of_its_nodes_that_nodes_own_secret(tmp_path: Path) -> None:
    members = []
    with serve(lambda r: (503, {})) as one, serve(lambda r: (200, {})) as two:
        for name, stub in (("n1", one), ("n2", two)):
            members.append(Member(name, int(stub.url.rpartition(":")[2]), 1))
            (tmp_path / name).mkdir()
        (tmp_path / "n2" / "local.token").write_text("rl_two\n")
        client = _client(tmp_path, members, 2.0)
        client.get("/v1/cluster")
        assert sent(one) == [None]
        (tmp_path / "n2" / "local.token").write_text("rl_new\n")  # it was started again
        client.get("/v1/cluster")
        assert sent(two) == ["Bearer rl_two", "Bearer rl_new"]
