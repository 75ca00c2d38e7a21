"""The scheduler class without a cluster: what it refuses to start with, and what it sends for a run."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime
from typing import Any

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc
from celery.exceptions import ImproperlyConfigured
from celery.schedules import schedule

from raftsched.celery import Scheduler, sending
from raftsched.celery.beat_worker import Connection
from raftsched.celery.sending import task_id_of

RUN = {
    "RAFTSCHED_JOB_ID": "j1",
    "RAFTSCHED_INSTANCE_ID": "j1@1",
    "RAFTSCHED_SCHEDULED_AT": "2027-01-15T08:00:00.000Z",
    "RAFTSCHED_ATTEMPT": "1",
}


class _Odd(schedule):  # type: ignore[misc]
    """A schedule of a user's own."""


def application(name: str | None = "shop", **settings: Any) -> Celery:
    app = Celery(name, broker="memory://", set_as_current=False)
    app.conf.update(settings)
    return app


@pytest.mark.parametrize(
    ("app", "why"),
    [
        (application(None), r"the application has no name.*Celery\('shop'\)"),
        (application("__main__"), "the application has no name"),
        (
            application(beat_schedule={"x": {"task": "t", "schedule": _Odd(5)}, "y": {"task": "t", "schedule": 1}}),
            "cannot run: x: its schedule is a .*_Odd; use a period",
        ),
    ],
)
def test_a_beat_does_not_start_with_what_cannot_be(app: Celery, why: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=why):
        Scheduler(app)
    Scheduler(app, lazy=True)  # as Celery asks for the banner


def test_a_run_sends_its_task_once_and_says_who_sends_it() -> None:
    one = {"task": "shop.task", "schedule": 60, "args": [BeatLazyFunc(lambda: datetime(2027, 1, 1, tzinfo=UTC).year)]}
    app = application(beat_schedule={"lazy": one}, raftsched_app="Shop 2")
    scheduler = Scheduler(app)
    params = {"entry": "e", "task": "shop.task", "args": [1], "options": {"queue": "q", "headers": {"own": "x"}}}
    first = scheduler.send_due(params, RUN)
    again = scheduler.send_due(params, {**RUN, "RAFTSCHED_ATTEMPT": "2"})
    assert first == {"task_id": task_id_of(RUN)}
    assert again == {"task_id": task_id_of(RUN), "again": True}
    assert task_id_of({**RUN, "RAFTSCHED_INSTANCE_ID": "j1@2"}) != first["task_id"] != task_id_of(RUN, 1)
    with app.connection_for_read() as connection:
        queue = connection.SimpleQueue("q")
        got = [queue.get(block=False) for _ in range(2)]
        assert [message.headers["id"] for message in got] == [first["task_id"]] * 2
        assert [message.headers["raftsched_attempt"] for message in got] == [1, 2]
        assert {message.headers[name] for message in got for name in ("own", "periodic_task_name")} == {"x", "e"}
        for message in got:
            message.ack()
        scheduler.send_due({"entry": "lazy", "task": "shop.task", "own": True}, RUN)
        own = connection.SimpleQueue("celery").get(block=False)
        assert own.payload[0] == [2027]
        own.ack()
    with pytest.raises(LookupError, match="has no such entry"):
        scheduler.send_due({"entry": "gone", "task": "shop.task", "own": True}, RUN)


def test_a_name_in_raftsched_jobs_that_is_no_entry_is_told(caplog: pytest.LogCaptureFixture) -> None:
    named: dict[str, Any] = {"*": {}, "one": {}, "tow": {"delivery": "at_most_once"}}
    Scheduler(application(beat_schedule={"one": {"task": "t", "schedule": 60}}, raftsched_jobs=named))
    assert [said for said in caplog.messages if "raftsched_jobs" in said] == [
        "raftsched_jobs names tow, and there is no such entry"
    ]


def test_a_run_that_is_ended_while_it_sends_revokes_what_it_may_have_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    revoked: list[str] = []

    class Sends(Celery):  # type: ignore[misc]
        def send_task(self, *_: Any, **__: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            raise AssertionError("it was told to end")

    app = Sends("shop", broker="memory://", backend="cache+memory://", set_as_current=False)
    monkeypatch.setattr(sending, "_application", lambda place: app)
    monkeypatch.setattr(sending, "state", dict)
    monkeypatch.setattr(sending, "run_variables", lambda: RUN)
    monkeypatch.setattr(
        "celery.result.AsyncResult.revoke", lambda self, terminate: revoked.append(f"{self.id} {terminate}")
    )
    with pytest.raises(SystemExit, match="revoked task"):
        sending.send("shop.task", follow=True)
    assert revoked == [f"{task_id_of(RUN)} True"]


def test_the_environment_says_where_the_cluster_is_and_with_which_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAFTSCHED_SERVER", "https://10.0.0.1:7401")
    found = Connection.of({"RAFTSCHED_TOKEN": "rs_jobs", "RAFTSCHED_CA_FILE": "ca.pem"})
    assert (found.servers, found.token, found.worker) == ("https://10.0.0.1:7401", "rs_jobs", "rs_jobs")
    assert found.trust.ca_file == "ca.pem"
    assert Connection.of({"RAFTSCHED_TOKEN": "rs_jobs", "RAFTSCHED_WORKER_TOKEN": "rs_runs"}).worker == "rs_runs"
