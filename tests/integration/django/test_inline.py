"""raftsched.testing.inline: what a test enqueues runs in its process."""

from __future__ import annotations

import io
import os
import re
import unittest
from types import SimpleNamespace
from typing import Any

import pytest

import raftsched
from raftsched.testing import inline
from tests.integration.django.conftest import ROOT


def test_it_runs_at_once_within_the_transaction(project: SimpleNamespace) -> None:
    from django.db import transaction

    with inline() as runs, transaction.atomic():
        project.ledger.note.enqueue(1, ["a", "b"], delay="1h")
        assert (runs[0].ran, runs[0].result) == (True, "a b")
        project.ledger.note_async.enqueue(2)
        assert runs[1].result == 1, "a coroutine sees the transaction, too"
        transaction.set_rollback(True)
    assert project.Invoice.objects.count() == 0


def test_held_runs_wait_until_they_are_asked_to(project: SimpleNamespace) -> None:
    with inline(hold=True) as runs:
        project.Invoice.objects.create(number=5)
        project.tasks.send_forgotten.enqueue()
        assert [one.ran for one in runs] == [False]
        runs.run()
        assert [(one.handler, one.result) for one in runs] == [("send-forgotten", 1), ("send-invoice", "sent")]


def test_a_key_is_one_job(project: SimpleNamespace) -> None:
    with inline() as runs:
        made = project.ledger.pack.enqueue(project.ledger.Order(7), key="a")
        again = project.ledger.pack.enqueue(project.ledger.Order(7), key="a")
        assert (made.created, again.created, again.id, len(runs)) == (True, False, made.id, 1)
        assert runs[0].result == 7
        with pytest.raises(raftsched.ConflictError):
            project.ledger.pack.enqueue(project.ledger.Order(8), key="a")


def test_what_a_function_raises(project: SimpleNamespace) -> None:
    with inline() as runs, pytest.raises(LookupError, match="nothing there"):
        project.ledger.wrong.enqueue()
    with inline(raises=False) as runs:
        project.ledger.wrong.enqueue()
        assert isinstance(runs[0].error, LookupError)


async def test_a_coroutine_function_is_enqueued_beside_a_running_loop(project: SimpleNamespace) -> None:
    with inline() as runs:
        project.ledger.spoken.enqueue("a")
    assert runs[0].result == "a!"


async def test_coroutines_enqueue(project: SimpleNamespace) -> None:
    with inline() as runs:
        await project.ledger.pack.aenqueue(project.ledger.Order(7))
        assert runs[0].result == 7


def test_connections_are_closed_around_runs_alone(project: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    from django.db import connection

    project.ledger.note(1)
    assert connection.connection is not None, "a call is a call"
    monkeypatch.setitem(os.environ, "RAFTSCHED_INSTANCE_ID", "j1@0")
    project.ledger.note(2)
    assert connection.connection is None
    with pytest.raises(LookupError):
        project.ledger.wrong()


def test_the_functions_stay_functions(project: SimpleNamespace) -> None:
    from raftsched.django import handler

    assert project.ledger.pack(project.ledger.Order(3)) == 3
    assert project.ledger.pack.__name__ == "pack"

    def generates() -> object:
        yield 1

    generates.__qualname__ = "generates"
    with pytest.raises(ValueError, match="is a generator function"):
        handler("generates")(generates)


def block(beginning: str) -> str:
    page = (ROOT / "docs" / "django.md").read_text()
    (found,) = [
        one for one in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE) if beginning in one
    ]
    return str(found)


def test_the_programs_of_the_page(project: SimpleNamespace) -> None:
    theirs: dict[str, Any] = {"__name__": "theirs"}
    exec(block("class Sending"), theirs)
    said = io.StringIO()
    found = unittest.TextTestRunner(said).run(unittest.defaultTestLoader.loadTestsFromTestCase(theirs["Sending"]))
    assert (found.testsRun, found.wasSuccessful()) == (1, True), said.getvalue()
    with inline(hold=True) as runs:
        exec(block("with transaction.atomic"), {"__name__": "theirs"})
    assert [(one.job["name"], one.job["trigger"]) for one in runs] == [("send-invoice.8", {"in": "10m"})]
    assert project.Invoice.objects.filter(number=8).exists()
    urls: dict[str, Any] = {"__name__": "theirs", "urlpatterns": []}
    exec(block("urlpatterns"), urls)
    assert len(urls["urlpatterns"]) == 1
