"""Which kind a file is, and which files of a directory belong together."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from raftsched.importers.kinds import KINDS, recognised
from raftsched.importers.sources import gather

FILES = {
    "apscheduler": ("x", json.dumps({"apscheduler": "3.11.3", "jobs": [{"trigger": {"type": "cron"}, "task": 1}]})),
    "crontab": ("tab", "MAILTO=x\n0 2 * * * /usr/bin/run --task=1\n"),
    "dkron": ("x", json.dumps([{"name": "a", "schedule": "@daily", "executor": "shell", "executor_config": {}}])),
    "kubernetes": ("x", "apiVersion: batch/v1\nkind: CronJob\nspec:\n  schedule: '0 2 * * *'\n"),
    "celery": ("x", json.dumps({"a": {"task": "x", "schedule": 5}})),
    "powerjob": ("x", json.dumps({"success": True, "data": {"jobName": "x", "timeExpressionType": 2}})),
    "quartz": ("x", '<?xml version="1.0"?>\n<job-scheduling-data version="2.0"/>'),
    "systemd": ("x", "# /etc/systemd/system/a.timer\n[Timer]\nOnCalendar=daily\n"),
    "xxl-job": ("x", json.dumps({"data": [{"id": 1, "scheduleType": "CRON", "scheduleConf": "0 0 2 * * ?"}]})),
}
OTHERS = [
    ("crontab", "x", "@daily run\n"),
    ("crontab", "x.crontab", "# nothing yet\n"),
    ("celery", "x.py", "app = 1\n"),
    ("celery", "stdin", "beat_schedule = {'a': {'task': 'x', 'schedule': crontab()}}\n"),
    ("celery", "x", json.dumps([{"model": "django_celery_beat.crontabschedule", "pk": 1, "fields": {}}])),
    ("quartz", "x", "TRIGGER_NAME,JOB_NAME,CRON_EXPRESSION\na,b,0 0 2 * * ?\n"),
    ("xxl-job", "x", "id;job_group;schedule_conf\n1;2;0 0 2 * * ?\n"),
    ("kubernetes", "x", json.dumps({"apiVersion": "v1", "kind": "List", "items": []})),
    ("systemd", "backup.timer", ""),
]


@pytest.mark.parametrize("kind, name, text", [(k, *f) for k, f in FILES.items()] + OTHERS)
def test_files_are_recognised(kind: str, name: str, text: str) -> None:
    assert recognised(name, text.encode()) == kind


def test_there_is_an_example_of_each_kind() -> None:
    assert set(FILES) == set(KINDS)


@pytest.mark.parametrize(
    "text", ["", "hello", "<html></html>", "{}", "\0\0\0", "\ufffe", "\n" * 300_000, "\t" * 300_000, "[" * 300_000]
)
def test_what_is_none_of_them_is_not_guessed(text: str) -> None:
    assert recognised("x", text.encode()) is None
    with pytest.raises(click.UsageError, match="nothing to read"):
        gather((), None)


def test_a_directory_of_units_is_one_source(tmp_path: Path) -> None:
    (tmp_path / "a.timer").write_text("[Timer]\nOnCalendar=daily\n")
    (tmp_path / "a.service").write_text("[Service]\nExecStart=/a\n")
    (tmp_path / "a.timer.d").mkdir()
    (tmp_path / "a.timer.d/x.conf").write_text("[Timer]\nPersistent=true\n")
    (tmp_path / "a.target.wants").mkdir()
    (tmp_path / "tab").write_text("@daily run\n")
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / ".hidden").write_text("@daily run\n")
    units, tab = gather((str(tmp_path),), None)
    assert (units.kind, units.name) == ("systemd", str(tmp_path))
    assert sorted(Path(path).name for path, _ in units.files) == ["a.service", "a.timer", "x.conf"]
    assert (tab.kind, Path(tab.name).name) == ("crontab", "tab")
    assert [source.kind for source in gather((str(tmp_path),), "systemd")] == ["systemd"]


def test_unit_files_that_are_named_one_by_one_belong_together(tmp_path: Path) -> None:
    for name in ("a.timer", "a.service"):
        (tmp_path / name).write_text("[Timer]\n")
    (tmp_path / "tab").write_text("@daily run\n")
    sources = gather(tuple(str(tmp_path / name) for name in ("a.timer", "tab", "a.service")), None)
    assert [(source.kind, len(source.files)) for source in sources] == [("systemd", 2), ("crontab", 1)]
    assert sources[0].name == "2 unit files"


def test_files_that_cannot_be_read_are_usage_errors(tmp_path: Path) -> None:
    for argument in (str(tmp_path / "none"), str(tmp_path)):
        with pytest.raises(click.UsageError):
            gather((argument,), None)
    (tmp_path / "x").write_text("hello")
    with pytest.raises(click.UsageError, match="not recognised; say what it is with --from"):
        gather((str(tmp_path / "x"),), None)
