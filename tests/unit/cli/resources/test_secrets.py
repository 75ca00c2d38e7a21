"""`raftsched secrets`, against a stub of the API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.stub_server import problem, serve
from tests.unit.cli.house import asked, routes, run

SMTP = {
    "name": "smtp", "namespace": "billing", "shared": False, "sealed": True, "revision": 4,
    "created_at": "2026-11-20T11:00:00Z", "modified_at": "2026-11-20T11:00:00Z",
}  # fmt: skip
PATH = "/v1/namespaces/billing/secrets/smtp"


def test_list_and_get() -> None:
    page = {"items": [SMTP], "next": None}
    with serve(routes({"GET /v1/secrets?limit=100": page, f"GET {PATH}": SMTP})) as stub:
        lines = run("--server", stub.url, "secrets", "list").output.splitlines()
        assert run("--server", stub.url, "secrets", "list", "-o", "name").output == "billing/smtp\n"
        assert json.loads(run("--server", stub.url, "secrets", "get", "billing/smtp", "-o", "json").output) == SMTP
    assert lines[1].split()[:5] == ["billing", "smtp", "no", "yes", "4"]


@pytest.mark.parametrize(
    ("typed", "options", "sent"),
    [
        ("hunter2\n", (), {"value": "hunter2"}),
        ("hunter2\r\n", (), {"value": "hunter2"}),
        ("hunter2\n", ("--exact",), {"value": "hunter2\n"}),
        ("two\nlines", ("--shared",), {"value": "two\nlines", "shared": True}),
        ("x", ("--not-shared",), {"value": "x", "shared": False}),
    ],
)
def test_set_reads_stdin(typed: str, options: tuple[str, ...], sent: object) -> None:
    with serve(lambda r: (201, SMTP)) as stub:
        result = run("--server", stub.url, "secrets", "set", "billing/smtp", *options, input=typed)
        assert (result.exit_code, result.output) == (0, "created: billing/smtp\n")
        assert asked(stub) == [f"PUT {PATH}"]
        assert stub.requests[0].json == sent


def test_set_reads_a_file_and_a_name_without_a_namespace(tmp_path: Path) -> None:
    file = tmp_path / "pw"
    file.write_text("hunter2\n")
    with serve(lambda r: (200, {**SMTP, "namespace": "default"})) as stub:
        result = run("--server", stub.url, "secrets", "set", "smtp", "--file", str(file))
        assert result.output == "set: default/smtp\n"
        assert asked(stub) == ["PUT /v1/namespaces/default/secrets/smtp"]


@pytest.mark.parametrize("typed", [b"", b"\n", b"\xffhunter2", b"hunter2" * 2_000])
def test_what_is_no_value_is_not_sent_nor_shown(typed: bytes) -> None:
    with serve(routes({})) as stub:
        result = run("--server", stub.url, "secrets", "set", "billing/smtp", input=typed)
        assert result.exit_code == 2
        assert "hunter2" not in result.output
        assert stub.requests == []


def test_a_value_is_no_argument() -> None:
    assert run("secrets", "set", "billing/smtp", "hunter2").exit_code == 2


def test_delete() -> None:
    used = problem(409, "in-use", "Jobs refer to the secret billing/smtp: billing/mailer.")
    with serve(lambda r: (204, None) if "force" in r.path else used) as stub:
        result = run("--server", stub.url, "secrets", "delete", "billing/smtp")
        assert (result.exit_code, "billing/mailer" in result.stderr) == (4, True)
        assert run("--server", stub.url, "secrets", "delete", "--force", "billing/smtp").exit_code == 0
        assert asked(stub)[-1] == f"DELETE {PATH}?force=true"
