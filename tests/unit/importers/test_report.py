"""The report of an import of several files: one, at the end, for people, for programs and in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.stub_server import serve
from tests.unit.cli.house import JOB, puts, run, taking

TAB = "@daily run a\n@reboot run b\n"
BEAT = "beat_schedule = {'a': {'task': 'shop.add', 'schedule': 5}, 'b': {'task': 'x', 'schedule': f()}}\n"
NOWHERE = ("--server", "http://127.0.0.1:1")


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    (tmp_path / "tab").write_text(TAB)
    (tmp_path / "beat.py").write_text(BEAT)
    return str(tmp_path / "tab"), str(tmp_path / "beat.py")


def test_one_report_for_all_files(files: tuple[str, str]) -> None:
    with serve(taking(201)) as stub:
        result = run("--server", stub.url, "jobs", "import", *files, "-z", "UTC")
    assert result.exit_code == 1
    assert len(puts(stub)) == 2
    tab, beat, total = result.stdout.splitlines()
    assert tab.startswith(f"{files[0]}: 1 imported, 1 refused; read without a user column")
    assert beat.startswith(f"{files[1]}: 1 imported, 1 with a note, 1 refused; times in UTC")
    assert total == "2 sources: 2 imported or brought up to date, 1 of them with a note, 2 refused"
    assert f"{files[1]}: line 1: to do: a node or worker has to announce" in result.stderr
    assert f"{files[1]}: line 1: refused: b\n    line 1: f() is code" in result.stderr


def test_the_report_for_programs(files: tuple[str, str]) -> None:
    result = run(*NOWHERE, "jobs", "import", *files, "-z", "UTC", "--dry-run", "-o", "json")
    report = json.loads(result.stdout)
    assert report["dry_run"] is True
    assert [(i["kind"], i["summary"]) for i in report["items"]] == [
        ("crontab", {"jobs": 1, "with_notes": 0, "refused": 1}),
        ("celery", {"jobs": 1, "with_notes": 1, "refused": 1}),
    ]
    assert report["items"][1]["notes"][0]["todo"] is True
    assert report["items"][0]["imported"][0]["job"]["handler"] == {"shell": "run a"}
    again = run(*NOWHERE, "jobs", "import", *files, "-z", "UTC", "--dry-run", "-o", "yaml")
    assert "kind: celery" in again.stdout
    names = run(*NOWHERE, "jobs", "import", *files, "-z", "UTC", "--dry-run", "-o", "name")
    assert names.stdout.splitlines()[1] == "a"


def test_the_report_in_a_file(files: tuple[str, str], tmp_path: Path) -> None:
    for name in ("r.md", "r.json"):
        result = run(*NOWHERE, "jobs", "import", *files, "-z", "UTC", "--dry-run", "--report", str(tmp_path / name))
        assert result.exit_code == 1
    assert json.loads((tmp_path / "r.json").read_text())["items"][0]["summary"]["jobs"] == 1
    text = (tmp_path / "r.md").read_text()
    for title in ("# Import", "A dry run", "## Not imported", "## To do", "## Jobs"):
        assert title in text
    assert r"@reboot run b" in text


def test_strangers_write_no_markup_into_it(tmp_path: Path) -> None:
    (tmp_path / "tab").write_text("@reboot <b>|[x](http://y)\n@reboot `a`\x1b[31m\n")
    report = tmp_path / "r.md"
    run(*NOWHERE, "jobs", "import", "--from", "crontab", str(tmp_path / "tab"), "--dry-run", "--report", str(report))
    text = report.read_text()
    assert r"\<b\>\|\[x\](http://y)" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "options, reason",
    [
        (["--report", "r.txt"], "neither in .md nor in .json"),
        (["--report", "/nowhere/r.md"], "lies in no directory"),
        (["--handler-template", "call:{task}"], "is for apscheduler, celery"),
        (["--handler-template", "ruby:x"], "does not begin with"),
        (["--from", "systemd"], "neither its name"),
    ],
)
def test_options_that_do_not_fit(tmp_path: Path, options: list[str], reason: str) -> None:
    (tmp_path / "tab").write_text("@daily run\n")
    result = run(*NOWHERE, "jobs", "import", str(tmp_path / "tab"), "--dry-run", *options)
    assert reason in result.stderr
    assert result.exit_code == (0 if "--from" in options else 2)


def test_nothing_is_sent_before_all_files_are_read(tmp_path: Path, files: tuple[str, str]) -> None:
    (tmp_path / "bad.xml").write_text("<job-scheduling-data>")
    with serve(lambda r: (201, JOB)) as stub:
        result = run("--server", stub.url, "jobs", "import", *files, str(tmp_path / "bad.xml"), "-z", "UTC")
    assert result.exit_code == 2
    assert "bad.xml is not XML" in result.stderr
    assert not stub.requests


@pytest.mark.parametrize(
    "data",
    [
        b"kind: CronJob\na: &a [*a]\n",
        b"kind: CronJob\nx: " + b"[" * 5000,
        b"kind: CronJob\n\xff\xfe\n",
        b'{"kind": "CronJob", "kind": "List"}',
    ],
)  # fmt: skip
def test_files_that_mean_harm_are_usage_errors(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    result = run(*NOWHERE, "jobs", "import", str(tmp_path / "x"), "--dry-run")
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
