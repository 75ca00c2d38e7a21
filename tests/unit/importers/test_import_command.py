"""Crontabs that are imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from raftsched.importers.hostzone import host_zone
from tests.support.stub_server import Request, problem, serve
from tests.unit.cli.house import JOB, asked, puts, run, taking

TAB = "MAILTO=x\n@daily run a\n@reboot run b\n0 0 * * * run c\n"


def test_import_sends_what_it_can_and_lists_the_rest() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        if request.method == "POST":
            return problem(404, "not-found", "no")
        if "run c" in request.json["handler"]["shell"]:
            return problem(422, "invalid-trigger", "The server does not like it.")
        return 201, JOB

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "import", "--from", "crontab", "-", "-N", "web", "--timeout", "2h",
                     "--suspended", "-z", "Asia/Tokyo", "--prefix", "w1-", input=TAB)  # fmt: skip
    assert result.exit_code == 1
    assert [r.path.rpartition("-")[0] for r in puts(stub)] == [
        "/v1/namespaces/web/jobs/w1-crontab-run-a",
        "/v1/namespaces/web/jobs/w1-crontab-run-c",
    ]
    assert puts(stub)[0].json == {
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
    with serve(taking(200)) as stub:
        for _ in range(2):
            result = run("--server", stub.url, "jobs", "import", "--from", "crontab", str(tab), "-z", "UTC")
            assert result.exit_code == 0
    assert asked(stub)[:3] == asked(stub)[3:]
    assert "2 known before" in result.stdout


def test_what_is_there_as_it_is_imported_is_not_sent() -> None:
    def answer(request: Request) -> tuple[int, Any]:
        if request.method == "PUT":
            return 200, JOB
        results = {True: "changed", False: "unchanged"}
        return 200, {"items": [{"result": results["run b" in job["handler"]["shell"]]} for job in request.json]}

    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "import", "--from", "crontab", "-", "-N", "web", "-z", "UTC",
                     input="@daily run a\n@hourly run b\n@daily run c\n")  # fmt: skip
    assert (result.exit_code, "3 known before" in result.stdout) == (0, True)
    (compared, sent) = stub.requests
    assert compared.path == "/v1/jobs:compare?consistency=leader"
    assert {job["namespace"] for job in compared.json} == {"web"}
    assert (sent.method, sent.json["handler"]["shell"], "name" in sent.json) == ("PUT", "run b", False)


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
