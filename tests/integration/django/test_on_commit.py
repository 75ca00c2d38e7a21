"""What is enqueued at the end of a transaction, with real transactions of SQLite."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import raftsched
from raftsched.testing import InlineRuns, inline
from tests.support.ports import closed_port


@pytest.fixture
def sent() -> Iterator[InlineRuns]:
    """What reaches the cluster; nothing of it runs."""
    with inline(hold=True) as runs:
        yield runs


def numbers(sent: InlineRuns) -> list[int]:
    return [one.params["number"] for one in sent]


def test_a_commit_enqueues_and_a_rollback_does_not(project: SimpleNamespace, sent: InlineRuns) -> None:
    from django.db import transaction

    with transaction.atomic():
        project.Invoice.objects.create(number=1)
        assert project.tasks.send_invoice.enqueue_on_commit(1, key="1", delay="1m") is None
        assert not sent
    assert numbers(sent) == [1]
    assert sent[0].job["name"] == "send-invoice.1"
    assert sent[0].job["trigger"] == {"in": "1m"}
    assert sent[0].job["namespace"] == "shop"
    with transaction.atomic():
        project.tasks.send_invoice.enqueue_on_commit(2)
        transaction.set_rollback(True)
    assert numbers(sent) == [1]


def test_outside_of_a_transaction_it_is_enqueued_at_once(project: SimpleNamespace, sent: InlineRuns) -> None:
    project.tasks.send_invoice.enqueue_on_commit(3)
    assert numbers(sent) == [3]


def test_a_savepoint_that_is_rolled_back_takes_its_own_with_it(project: SimpleNamespace, sent: InlineRuns) -> None:
    from django.db import transaction

    enqueue = project.tasks.send_invoice.enqueue_on_commit
    with transaction.atomic():
        enqueue(1)
        with transaction.atomic():
            enqueue(2)
            transaction.set_rollback(True)
        with transaction.atomic():
            enqueue(3)
        assert not sent
    assert numbers(sent) == [1, 3]


def test_the_transaction_of_another_database_is_named(project: SimpleNamespace, sent: InlineRuns) -> None:
    from django.db import transaction

    enqueue = project.tasks.send_invoice.enqueue_on_commit
    with transaction.atomic(using="ledger"):
        enqueue(1)  # of the default database, which has no transaction
        assert numbers(sent) == [1]
        enqueue(2, using="ledger")
        with transaction.atomic():
            enqueue(3)
        assert numbers(sent) == [1, 3]
    assert numbers(sent) == [1, 3, 2]


def test_arguments_are_checked_and_kept_where_the_call_is_written(project: SimpleNamespace, sent: InlineRuns) -> None:
    from django.db import transaction

    words = ["as", "it", "was"]
    with transaction.atomic():
        project.ledger.note.enqueue_on_commit(7, words)
        words.append("not")
        with pytest.raises(TypeError, match="missing a required argument"):
            project.ledger.note.enqueue_on_commit(nmber=7)
        with pytest.raises(TypeError, match="cannot be written as JSON"):
            project.ledger.note.enqueue_on_commit(7, [object()])
        with pytest.raises(ValueError, match="delay or at"):
            project.ledger.note.enqueue_on_commit(7, delay="1m", at="2030-01-01T00:00:00Z")
    assert [one.params for one in sent] == [{"number": 7, "words": ["as", "it", "was"]}]


def test_a_cluster_that_is_away_is_an_error_of_the_commit_that_stays(
    project: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    from django.test import override_settings

    away = {"server": f"http://127.0.0.1:{closed_port()}", "timeout": 0.2}
    with override_settings(RAFTSCHED=away):
        with pytest.raises(raftsched.UnavailableError, match="No node answered"):
            _create(project, 1)
        with caplog.at_level(logging.ERROR):
            _create(project, 2, robust=True)
    assert "on_commit() " in caplog.text
    assert project.Invoice.objects.count() == 2


def _create(project: SimpleNamespace, number: int, **options: bool) -> None:
    from django.db import transaction

    with transaction.atomic():
        project.Invoice.objects.create(number=number)
        project.tasks.send_invoice.enqueue_on_commit(number, **options)


def test_a_parameter_that_is_an_option_is_refused(project: SimpleNamespace) -> None:
    from raftsched.django import handler

    def backup(using: str) -> None: ...

    backup.__qualname__ = "backup"
    with pytest.raises(ValueError, match="has a parameter using, which is an option of enqueue_on_commit"):
        handler("backup-database")(backup)
