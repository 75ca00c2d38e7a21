"""A project with a cluster: runs with the ORM, the admin, the health check, the command."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from raftsched.testing.running import RunningCluster
from tests.support.patience import patient


def result(cluster: RunningCluster, job: Any) -> Any:
    run = cluster.client.jobs.wait(job, timeout=patient(60))
    assert run.state == "SUCCEEDED", run.error
    return run.result


def test_runs_use_the_databases_of_the_test(project: SimpleNamespace, cluster: RunningCluster) -> None:
    from django.db import transaction

    assert result(cluster, project.ledger.note.enqueue(1, ["a"])) == "a"
    assert result(cluster, project.ledger.note_async.enqueue(2)) == 1
    assert result(cluster, project.ledger.pack.enqueue(project.ledger.Order(7))) == 7
    assert result(cluster, project.ledger.plain.enqueue()) == 2
    with transaction.atomic():
        project.Invoice.objects.create(number=3)
        project.tasks.send_invoice.enqueue_on_commit(3, key="3")
    assert result(cluster, "shop/send-invoice.3") == "sent"
    assert project.Invoice.objects.get(number=3).sent == 1


def test_a_run_begins_without_the_connection_of_the_one_before(
    project: SimpleNamespace, cluster: RunningCluster
) -> None:
    found = [result(cluster, project.ledger.look.enqueue()) for _ in range(2)]
    assert found[0]["pid"] == found[1]["pid"], "the process serves both: nothing was left in it"
    for one in found:
        assert (one["left"], one["seen"], one["id"]) == ([], os.environ["SHOP_DATA"], None)


def test_who_may_see_the_admin(project: SimpleNamespace, cluster: RunningCluster) -> None:
    from django.contrib.auth.models import Permission, User
    from django.test import Client, override_settings

    address = "/admin/raftsched/job/"
    made = project.ledger.pack.enqueue(project.ledger.Order(1), key="seen")
    assert result(cluster, made) == 1
    browser = Client()
    assert browser.get(address).status_code == 302, "strangers log in"
    User.objects.all().delete()
    user = User.objects.create_user("ana", is_staff=True)
    browser.force_login(user)
    assert browser.get(address).status_code == 403
    assert b"raftsched" not in browser.get("/admin/").content
    user.user_permissions.add(Permission.objects.get(content_type__app_label="raftsched", codename="view_job"))
    shown = browser.get(address)
    assert shown.status_code == 200
    assert address.encode() in browser.get("/admin/").content
    page = f"{cluster.servers}/ui/"
    assert f'<a href="{page}jobs/{made.id}" rel="noopener">shop/pack.seen</a>' in shown.content.decode()
    assert "SUCCEEDED" in shown.content.decode()
    with override_settings(RAFTSCHED={"page": "https://jobs.example.com/ui"}):
        assert "https://jobs.example.com/ui/jobs/" in browser.get(address).content.decode()
    assert browser.get(f"{address}1/change/").status_code in (302, 404), "nothing can be changed"
    assert browser.post(address).status_code == 200


@pytest.mark.parametrize("text", ["<script>alert(1)</script>"])
def test_what_the_cluster_says_is_escaped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.contrib.auth.models import User
    from django.test import Client

    from raftsched.django import admin

    row = admin.Row(text, f"https://x/{text}", text, text, text, text, 0, 0)
    monkeypatch.setattr(admin, "_rows", lambda _: [row])
    browser = Client()
    browser.force_login(User.objects.get_or_create(username="root", is_staff=True, is_superuser=True)[0])
    shown = browser.get("/admin/raftsched/job/").content.decode()
    assert text not in shown
    assert shown.count("&lt;script&gt;") >= 6


def test_health_tells_strangers_one_word_and_asks_seldom(
    project: SimpleNamespace, cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.test import Client

    from raftsched.django import views

    asked: list[int] = []
    trouble = views.trouble
    monkeypatch.setattr(views, "_answer", views._Answer())

    def counted() -> str | None:
        asked.append(1)
        return trouble()

    monkeypatch.setattr(views, "trouble", counted)
    monkeypatch.setattr(views, "KEPT_S", 600.0)
    browser = Client()
    for _ in range(5):
        answer = browser.get("/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert len(asked) == 1
    assert "no-store" in answer["Cache-Control"]
    assert browser.head("/health").status_code == 200
    assert browser.post("/health").status_code == 405


def test_the_command_speaks_to_the_cluster_of_the_settings(
    project: SimpleNamespace, cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    from django.core.management import CommandError, call_command

    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAFTSCHED_SERVER", "RAFTSCHED_INSECURE"):
            patch.setenv(name, "")
        call_command("raftsched", "apply", "--dry-run")
        assert "would be created: shop/nightly-report" in capsys.readouterr().out
        call_command("raftsched", "apply")
        call_command("raftsched", "jobs", "list", "--settings", "shop.settings", "-o", "name")
        assert "ledger/count-up" in capsys.readouterr().out
        with pytest.raises(SystemExit) as ended:
            call_command("raftsched", "jobs", "get", "shop/nothing")
        assert ended.value.code == 3
        with pytest.raises(CommandError, match="say a command"):
            call_command("raftsched")


def test_the_command_of_a_node(project: SimpleNamespace) -> None:
    from raftsched.django.management.commands import raftsched as command

    given = {"node": {"id": "n1", "labels": {"disk": "ssd"}, "no_run": False}, "environment": ["SHOP_DATA"]}
    from django.test import override_settings

    names = ("ID", "LABELS", "NO_RUN", "EXECUTORS", "RUN_AS", "CONFIG", "DATA")
    with pytest.MonkeyPatch.context() as patch, override_settings(RAFTSCHED=given):
        for name in names:
            patch.delenv(f"RAFTSCHED_{name}", raising=False)
        patch.setenv("RAFTSCHED_DATA", "/of/the/variable")
        arguments = command._process("node", ["--id", "n2"])
        assert arguments[-2:] == ["--id", "n2"], "what is said by hand comes last, and wins"
        assert [arguments[at + 1] for at, one in enumerate(arguments) if one == "--env-pass"] == [
            *("DJANGO_SETTINGS_MODULE", "RAFTSCHED_SERVER", "RAFTSCHED_CA_FILE", "SHOP_DATA"),
        ]
        assert arguments[1:5] == [
            *("--python-first", "raftsched.django.processes", "--handlers", "raftsched.django.found"),
        ]
        said = {name: os.environ.get(f"RAFTSCHED_{name}") for name in names}
        assert said["LABELS"] == "disk=ssd"
        assert (said["NO_RUN"], said["DATA"], said["EXECUTORS"]) == ("false", "/of/the/variable", "call,http")
        assert said["RUN_AS"] == ("default=root" if os.geteuid() == 0 else None)
        for name in ("EXECUTORS", "RUN_AS"):
            patch.delenv(f"RAFTSCHED_{name}", raising=False)
        command._process("node", ["--executors=exec"])
        assert "RAFTSCHED_RUN_AS" not in os.environ, "programs of jobs are not root's"
        for name in names:
            os.environ.pop(f"RAFTSCHED_{name}", None)


def test_what_the_settings_have_as_none_is_not_said(project: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """As os.environ.get gives it where a variable is missing."""
    from django.core.checks import run_checks
    from django.test import override_settings

    from raftsched.django.management.commands import raftsched as command

    given: Any = {"node": {"id": None}, "environment": None}
    monkeypatch.delenv("RAFTSCHED_ID", raising=False)
    monkeypatch.setenv("RAFTSCHED_EXECUTORS", "call")
    with override_settings(RAFTSCHED=given):
        assert run_checks(tags=["raftsched"]) == []
        assert "--env-pass" in command._process("node", [])
    assert "RAFTSCHED_ID" not in os.environ


def test_a_cluster_needs_databases_in_files(project: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.core.exceptions import ImproperlyConfigured
    from django.db import connections

    from raftsched.django import testing

    monkeypatch.setattr(type(connections["ledger"]), "is_in_memory_db", lambda _: True)
    with pytest.raises(ImproperlyConfigured, match=r"the database 'default' of the tests is in memory"):  # noqa: SIM117
        with testing.cluster():
            pass
