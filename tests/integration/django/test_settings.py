"""The setting RAFTSCHED: checks say what would be right, and what it says of the cluster holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from raftsched.client import program
from tests.integration.django.conftest import EXAMPLE, ROOT
from tests.support.ports import closed_port


@pytest.mark.parametrize(
    ("given", "text", "hint"),
    [
        (["x"], "it is a list, and has to be a dict", 'RAFTSCHED = {"server"'),
        ({"sever": "x"}, "'sever' is no key of it", "Did you mean 'server'?"),
        ({"zzz": 1}, "'zzz' is no key of it", "Known are server, token"),
        ({"server": 7}, "server is 7, and no address", "Write "),
        ({"server": "ftp://x"}, "server is wrong: 'ftp://x' is not a server address", "Write http://host:port"),
        ({"server": ["http://a:1", "b:x"]}, "server is wrong", "Write http://host:port"),
        ({"token": "a b"}, "token is no text of one line", "raftsched tokens create"),
        ({"token": "a", "token_file": "b"}, "token and token_file are both there", "Keep token_file"),
        ({"client_key": "a"}, "without client_cert", "Name the certificate"),
        ({"timeout": "2s"}, "timeout is '2s'", "Write seconds, from 0.1 to 600"),
        ({"timeout": True}, "timeout is True", "Write seconds"),
        ({"insecure": "yes"}, "insecure is 'yes'", "True or False"),
        ({"namespace": "A B"}, "'A B' is no namespace", "A name has"),
        ({"handlers": "billing.tasks"}, "handlers is 'billing.tasks'", "Write a list of modules"),
        ({"handlers": ["billing.nowhere"]}, "there is no such module", "Write a list of modules"),
        ({"handlers": ["nowhere_b.tasks"]}, "there is no such module", "Write a list of modules"),
        ({"environment": "DATABASE_URL"}, "environment is 'DATABASE_URL'", "list of names"),
        ({"environment": ["A=1"]}, "environment is ['A=1']", "list of names"),
        ({"page": "javascript:alert(1)"}, "page is 'javascript:alert(1)'", "where browsers find the page"),
        ({"handlers": ["broken.tasks"]}, "cannot be imported (RuntimeError: not now)", "Write a list of modules"),
        ({"page": "http://[::1"}, "page is 'http://[::1'", "where browsers find the page"),
        ({"page": "https://u:p@x/ui/"}, "and no address", "where browsers find the page"),
        ({"node": "n1"}, "node is 'n1', and no dict", "settings of raftsched node"),
        ({"node": {"dat": "x"}}, "node has 'dat', which is no setting of a node", "Did you mean 'data'?"),
        ({"node": {"env_pass": ["X"]}}, "node has 'env_pass'", "said for all"),
        ({"worker": {"server": "x"}}, "worker has 'server'", "said for all"),
    ],
)
def test_what_is_wrong_is_said_with_what_would_be_right(
    given: Any, text: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.core.checks import run_checks
    from django.test import override_settings

    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("raise RuntimeError('not now')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with override_settings(RAFTSCHED=given):
        (found,) = run_checks(tags=["raftsched"])
    assert found.is_serious()
    assert text in found.msg
    assert hint in found.hint
    assert found.id in ("raftsched.E001", "raftsched.E002", "raftsched.E003")


def test_no_setting_at_all_is_the_cluster_of_the_environment() -> None:
    from django.core.checks import run_checks
    from django.test import override_settings

    given: Any
    for given in (None, {}):
        with override_settings(RAFTSCHED=given):
            assert run_checks(tags=["raftsched"]) == []
            assert program.arguments({}) == {}
            assert program.namespace() is None


def test_variables_win_over_the_setting() -> None:
    from django.test import override_settings

    given: Any = {
        "server": ["http://a:1", "http://b:2"],
        "token_file": "t",
        "ca_file": "ca",
        "timeout": 3,
        "namespace": "x",
    }
    with override_settings(RAFTSCHED=given):
        said = program.arguments({})
        assert said == {"servers": "http://a:1,http://b:2", "token_file": "t", "ca_file": "ca", "timeout": 3}
        assert program.arguments({"RAFTSCHED_CA_FILE": "other"}) == {
            name: value for name, value in said.items() if name != "ca_file"
        }
        assert "token_file" not in program.arguments({"RAFTSCHED_TOKEN": "secret"})
        # Of another cluster neither the token nor the authority is this one's.
        assert program.arguments({"RAFTSCHED_SERVER": "http://c:3"}) == {"timeout": 3}
        assert program.arguments({"RAFTSCHED_CONTEXT": "prod"}) == {"timeout": 3}
        assert program.namespace() == "x"


def test_a_wrong_setting_is_an_error_where_something_is_enqueued() -> None:
    from billing.tasks import send_invoice
    from django.core.exceptions import ImproperlyConfigured
    from django.test import override_settings

    with (
        override_settings(RAFTSCHED={"server": "ftp://x"}),
        pytest.raises(ImproperlyConfigured, match="server is wrong"),
    ):
        send_invoice.enqueue(7)


def test_deploying_looks_whether_the_cluster_answers() -> None:
    from django.core.checks import run_checks
    from django.test import override_settings

    with override_settings(RAFTSCHED={"server": f"http://127.0.0.1:{closed_port()}", "timeout": 0.2}):
        assert run_checks(tags=["raftsched"]) == []
        (found,) = run_checks(tags=["raftsched"], include_deployment_checks=True)
    assert found.id == "raftsched.W001"
    assert "takes no jobs now: No node answered" in found.msg


def test_jobs_are_declared_in_the_namespace_of_the_setting() -> None:
    from raftsched.client.declared import specs_of

    found = {
        f"{one['namespace']}/{one['name']}" for one in specs_of(["billing.tasks", "tests.integration.django.ledger"])
    }
    assert found == {"shop/send-forgotten", "shop/nightly-report", "ledger/count-up"}


def test_a_project_that_asks_nothing_loads_no_client() -> None:
    """Each process of runs imports the app, and each command of manage.py."""
    script = "import sys, raftsched.django.processes, raftsched.django.found; print(*sorted(sys.modules))"
    path = os.pathsep.join((str(ROOT), str(EXAMPLE)))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "raftsched.django.admin" in loaded
    assert not {"aiohttp", "click", "raftsched.client.aio", "raftsched.client.http", "raftsched.embedded.node"} & loaded


def test_without_django_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "django", None)
    monkeypatch.delitem(sys.modules, "raftsched.django", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"raftsched\.django needs Django: pip install django"):
        __import__("raftsched.django")


def test_a_cluster_that_is_away_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from django.contrib.auth.models import User
    from django.test import Client, override_settings

    from raftsched.django import admin, views

    monkeypatch.setattr(admin, "ASK_S", 0.2)
    monkeypatch.setattr(views, "ASK_S", 0.2)
    monkeypatch.setattr(views, "_answer", views._Answer())
    browser = Client()
    browser.force_login(User.objects.get_or_create(username="root", is_staff=True, is_superuser=True)[0])
    given: Any
    for given in ({"server": f"http://127.0.0.1:{closed_port()}"}, {"server": "ftp://x"}):
        with override_settings(RAFTSCHED=given):
            shown = browser.get("/admin/raftsched/job/")
            assert shown.status_code == 200
            assert "The jobs cannot be shown" in shown.content.decode()
    stranger = Client()
    with override_settings(RAFTSCHED={"server": f"http://127.0.0.1:{closed_port()}"}):
        answer = stranger.get("/health")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
