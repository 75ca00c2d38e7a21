"""Logging in by a device code, and what becomes of the login."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftsched.cli.auth import logins
from raftsched.cli.context_file import read_contexts
from raftsched.client.contexts import contexts_file
from raftsched.system.clock import SystemClock
from tests.support.issuer import CLIENT, FakeIssuer, issuing_beside
from tests.support.stub_server import Request, Stub, problem, serve
from tests.unit.cli.house import run

ME = {
    "kind": "oidc", "name": "oidc:ana (u-1)", "role": "viewer", "namespaces": None, "expires_at": None,
    "grants": [{"namespace": "web", "role": "editor"}], "issuer": "x", "subject": "u-1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("RAFTSCHED_SERVER", "RAFTSCHED_CONTEXT", "RAFTSCHED_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def issuer() -> Iterator[FakeIssuer]:
    with issuing_beside() as found:
        found.now = SystemClock().wall_ms() // 1_000
        yield found


@pytest.fixture
def cluster() -> Iterator[Stub]:
    def answer(request: Request) -> tuple[int, Any]:
        if not request.headers.get("authorization", "").startswith("Bearer ey"):
            return problem(401, "unauthorized", "This cluster wants a token.")
        return (200, ME) if request.path == "/v1/whoami" else (200, {"items": [], "next": None})

    with serve(answer) as stub:
        assert run("contexts", "set", "prod", stub.url, "--use").exit_code == 0
        yield stub


def bearer(stub: Stub) -> str:
    return str(stub.requests[-1].headers["authorization"]).removeprefix("Bearer ")


def log_in(issuer: FakeIssuer, *more: str) -> Any:
    issuer.when_asked = lambda: issuer.let_in(sub="u-1")
    return run("login", "--issuer", issuer.url, "--client-id", CLIENT, *more)


def test_a_login_and_its_end(issuer: FakeIssuer, cluster: Stub) -> None:
    assert run("whoami").exit_code == 5
    result = log_in(issuer, "--device")
    assert result.exit_code == 0, result.output
    assert "WDJB-MJHT" in result.stderr
    assert f"{issuer.url}/activate" in result.stderr
    assert result.stdout == "logged in: prod as oidc:ana (u-1) (viewer, editor in web)\n"
    token = bearer(cluster)
    assert token.count(".") == 2
    assert stat.S_IMODE(contexts_file().stat().st_mode) == 0o600
    shown = run("whoami")
    assert "viewer, editor in web" in shown.stdout
    for printed in (result, shown, run("contexts"), run("contexts", "list", "-o", "json")):
        assert token not in printed.output, "it is never printed"
        assert "refresh-1" not in printed.output
    assert run("jobs", "list").exit_code == 0
    assert bearer(cluster) == token
    out = run("logout")
    assert (out.exit_code, out.stdout, issuer.revoked) == (0, "logged out: prod\n", ["refresh-1"])
    assert "refresh-1" not in contexts_file().read_text()
    assert token not in contexts_file().read_text()
    assert run("jobs", "list").exit_code == 5
    assert run("logout").exit_code == 3
    issuer.when_asked = issuer.let_in
    assert run("login").exit_code == 0, "issuer and client are remembered"


def test_it_is_renewed_when_it_is_past_its_end(issuer: FakeIssuer, cluster: Stub) -> None:
    issuer.now -= 300
    assert log_in(issuer).exit_code == 0
    first = bearer(cluster)
    issuer.now += 300
    assert run("jobs", "list").exit_code == 0
    second = bearer(cluster)
    assert second != first
    assert "refresh-2" in contexts_file().read_text()
    assert run("--context", "prod", "jobs", "list").exit_code == 0
    assert bearer(cluster) == second, "it holds"


def test_commands_at_one_time_renew_it_once(issuer: FakeIssuer, cluster: Stub) -> None:
    issuer.now -= 300
    assert log_in(issuer).exit_code == 0
    issuer.now += 300
    context = read_contexts()[0]["prod"]
    found: list[str | None] = []
    threads = [threading.Thread(target=lambda: found.append(logins.renewed("prod", context).token)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert issuer.given == 2
    assert len(set(found)) == 1


def test_a_login_that_is_over_is_said(issuer: FakeIssuer, cluster: Stub) -> None:
    issuer.now -= 300
    assert log_in(issuer).exit_code == 0
    issuer.refresh.clear()
    result = run("jobs", "list")
    assert "the login of prod was not renewed" in result.stderr
    assert "invalid_grant" in result.stderr
    issuer.when_asked = issuer.let_in
    issuer.now += 300
    assert run("login").exit_code == 0
    assert "not renewed" not in run("jobs", "list").stderr


def test_who_is_not_let_in(issuer: FakeIssuer, cluster: Stub) -> None:
    issuer.when_asked = issuer.refuse
    result = run("login", "--issuer", issuer.url, "--client-id", CLIENT)
    assert (result.exit_code, "access_denied" in result.stderr) == (5, True)
    assert run("login", "--issuer", issuer.url, "--client-id", "other").exit_code == 5
    assert read_contexts()[0]["prod"].login is None


@pytest.mark.parametrize(
    "documents",
    [
        {"issuer": "https://other.example"},
        {"device_authorization_endpoint": None},
        {"token_endpoint": "http://192.0.2.1/token"},
        {"device_authorization_endpoint": "https://a:b@192.0.2.1/"},
    ],
)
def test_an_issuer_that_is_not_what_it_should_be(issuer: FakeIssuer, cluster: Stub, documents: dict[str, Any]) -> None:
    issuer.documents = documents
    assert log_in(issuer).exit_code == 4
    issuer.down = True
    assert log_in(issuer).exit_code == 4


def test_what_is_to_be_said(cluster: Stub) -> None:
    assert run("login").exit_code == 2
    for url in ("http://192.0.2.1", "ftp://x", "https://x/?y", "https://\u00e9"):
        assert run("login", "--issuer", url, "--client-id", CLIENT).exit_code == 4
    assert run("login", "--issuer", "http://127.0.0.1:1", "--client-id", CLIENT).exit_code == 6
    assert run("contexts", "use", "--none").exit_code == 0
    assert run("login", "--issuer", "https://x", "--client-id", CLIENT).exit_code == 2
    assert run("logout").exit_code == 2


def test_a_context_keeps_its_login_as_long_as_its_servers(issuer: FakeIssuer, cluster: Stub, tmp_path: Path) -> None:
    assert log_in(issuer).exit_code == 0
    assert run("contexts", "set", "prod", cluster.url).exit_code == 0
    assert read_contexts()[0]["prod"].login is not None
    (tmp_path / "token").write_text("rs_x")
    assert run("contexts", "set", "prod", cluster.url, "--token-file", str(tmp_path / "token")).exit_code == 0
    assert read_contexts()[0]["prod"].login is None


def test_a_login_that_is_something_else_is_said() -> None:
    contexts_file().parent.mkdir(parents=True, exist_ok=True)
    for text in ("login = 3", 'login = {issuer = "x"}', 'login = {issuer = 1, client_id = "", scope = "", use = ""}'):
        contexts_file().write_text(f'current = "a"\n[contexts.a]\nserver = "http://127.0.0.1:1"\n{text}\n')
        assert run("jobs", "list").exit_code == 1
