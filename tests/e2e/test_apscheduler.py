"""raftsched.apscheduler.JobStore in real schedulers, and examples/apscheduler, killed while a run is under way."""

from __future__ import annotations

import difflib
import json
import pickle
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR
from apscheduler.jobstores.base import ConflictingIdError, JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

import raftsched
from raftsched.apscheduler import JobStore, export
from raftsched.apscheduler.stores import open_store
from raftsched.testing import running_cluster
from raftsched.testing.running import RunningCluster
from tests.e2e.steps import command
from tests.support.patience import patient, wait_until
from tests.support.programs import EXAMPLES, Program

pytestmark = pytest.mark.e2e

EXAMPLE = EXAMPLES / "apscheduler"
MOVED_MAX = 5  # lines that who has such a program writes
SEND = f"{__name__}:send"


def send(number: int, to: str) -> None:
    """What jobs of the schedulers in this process call."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[RunningCluster]:
    with running_cluster(1, pythonpath=[str(EXAMPLE)], jobs_as_node=True) as running:
        yield running


@pytest.fixture
def scheduler(nodes: RunningCluster) -> Iterator[BackgroundScheduler]:
    made = BackgroundScheduler(jobstores={"default": JobStore(nodes.client)}, timezone="UTC")
    made.start()
    yield made
    made.remove_all_jobs()
    made.shutdown()


def job(nodes: RunningCluster, name: str) -> raftsched.Job:
    return nodes.client.jobs.get(f"default/{name}")


def test_calls_of_apscheduler_change_jobs_of_the_cluster(
    nodes: RunningCluster, scheduler: BackgroundScheduler, tmp_path: Path
) -> None:
    made = scheduler.add_job(SEND, "cron", hour=2, id="nightly", args=[7, str(tmp_path)], max_instances=2)
    found = job(nodes, "nightly")
    assert (found.trigger, found.handler) == ({"cron": "0 2 * * *", "timezone": "UTC"}, {"python": SEND})
    assert (found.params, found.overlap) == ({"number": 7, "to": str(tmp_path)}, "allow")
    with pytest.raises(ConflictingIdError):
        scheduler.add_job(SEND, "cron", hour=3, id="nightly", args=[7, str(tmp_path)])
    scheduler.add_job(SEND, "cron", hour=3, id="nightly", args=[8, str(tmp_path)], replace_existing=True)
    assert job(nodes, "nightly").params == {"number": 8, "to": str(tmp_path)}
    made = scheduler.get_job("nightly")
    made.pause()
    assert job(nodes, "nightly").state == "SUSPENDED"
    made.resume()
    assert job(nodes, "nightly").state == "SCHEDULED"
    made.reschedule("interval", hours=1, start_date=datetime(2030, 1, 1, tzinfo=UTC))
    assert job(nodes, "nightly").trigger == {"every": "1h", "starts_at": "2030-01-01T00:00:00Z"}
    assert [one.id for one in scheduler.get_jobs()] == ["nightly"]
    scheduler.add_job(SEND, "interval", hours=1, id="at-once", args=[7, str(tmp_path)], next_run_time=datetime.now(UTC))
    (now,) = nodes.client.instances.list(job="default/at-once")
    assert now.manual, "APScheduler runs it now, and then each hour"
    scheduler.add_job(SEND, "cron", hour=2, id="later", args=[7, str(tmp_path)], next_run_time=None).resume()
    assert job(nodes, "later").state == "SCHEDULED", "it was added paused"
    scheduler.remove_job("nightly")
    with pytest.raises(raftsched.NotFoundError):
        job(nodes, "nightly")
    with pytest.raises(JobLookupError):
        scheduler.remove_job("nightly")


def test_a_job_without_trigger_runs_at_once_and_its_id_is_free_when_it_is_over(
    nodes: RunningCluster, scheduler: BackgroundScheduler
) -> None:
    made: dict[str, Any] = {"func": "json:dumps", "args": [1], "id": "at once"}

    def over() -> str:
        wait_until(lambda: job(nodes, "at-once").state == "EXPIRED" and not job(nodes, "at-once").active, "its run")
        return job(nodes, "at-once").id

    scheduler.add_job(**made)
    first = over()
    scheduler.add_job(**made, replace_existing=True)
    second = over()
    scheduler.get_job("at once").remove()
    scheduler.add_job(**made)
    assert len({first, second, over()}) == 3
    with pytest.raises(ValueError, match="would be called 'at-once' there, as job 'at once' is"):
        scheduler.add_job("json:dumps", "interval", hours=1, args=[1], id="AT once", replace_existing=True)


def test_what_an_operator_paused_stays_so_when_the_program_starts_again(
    nodes: RunningCluster, scheduler: BackgroundScheduler, tmp_path: Path
) -> None:
    for _ in range(2):
        scheduler.add_job(SEND, "cron", hour=2, id="held", args=[7, str(tmp_path)], replace_existing=True)
        nodes.client.jobs.pause("default/held")
    assert job(nodes, "held").state == "SUSPENDED"


def test_what_cannot_be_said_is_refused_and_nothing_is_made(
    nodes: RunningCluster, scheduler: BackgroundScheduler
) -> None:
    failed: list[Any] = []
    scheduler.add_listener(failed.append, EVENT_JOB_ERROR)
    with pytest.raises(ValueError, match=r"'bad' cannot run in the cluster: its args are no values of JSON"):
        scheduler.add_job(SEND, "cron", hour=2, id="bad", args=[object(), "/"])
    with pytest.raises(ValueError, match=r"reference to the callable"):
        scheduler.add_job(lambda: None, "cron", hour=2, id="lambda")
    with pytest.raises(ValueError, match="has nothing that a name here may have"):
        scheduler.add_job(SEND, "cron", hour=2, id="???", args=[1, "/"])
    assert scheduler.get_jobs() == []
    assert not failed


def test_a_program_that_is_killed_loses_no_run(nodes: RunningCluster, tmp_path: Path) -> None:
    def start(log: str) -> Program:
        settings = {"RAFTSCHED_SERVER": nodes.servers, "SHOP_SENT": str(tmp_path)}
        started = Program("apscheduler", ["app.py"], tmp_path / log, settings)
        started.wait("the program to be ready", lambda: "ready" in started.printed)
        return started

    (tmp_path / "slow").touch()
    begun, done = tmp_path / "invoice-7.begun", tmp_path / "invoice-7.sent"
    app = start("first")
    try:
        run = nodes.client.jobs.run("default/invoice")
        app.wait("the run to begin", begun.exists)
        app.kill()
        ticks = (tmp_path / "ticks").stat().st_size if (tmp_path / "ticks").exists() else 0
        (tmp_path / "slow").unlink()
        assert nodes.client.instances.wait(run, timeout=patient(60)).state == "SUCCEEDED"
        assert done.read_text() == "invoice 7\n"
        wait_until(
            lambda: (tmp_path / "ticks").stat().st_size > ticks, "it to tick though nobody is there", passing=(OSError,)
        )
        revision = job(nodes, "invoice").revision
        app = start("second")
        assert job(nodes, "invoice").revision == revision, "what did not change is not changed"
        assert app.end() == 0
        assert job(nodes, "invoice").state == "SCHEDULED", "a program that ends takes no job with it"
    finally:
        app.kill()
        for name in ("invoice", "tick"):
            nodes.client.jobs.delete(f"default/{name}")


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    """The URL of a Redis that listens at a socket in a directory, and keeps nothing."""
    if shutil.which("redis-server") is None:
        pytest.skip("there is no redis-server here")
    with tempfile.TemporaryDirectory(prefix="redis-") as place:  # the path of a socket has to be short
        words = ["--port", "0", "--unixsocket", f"{place}/socket", "--save", "", "--dir", place]
        with (tmp_path / "redis.log").open("wb") as log:
            process = subprocess.Popen(["redis-server", *words], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        try:
            wait_until(Path(place, "socket").exists, "Redis to listen")
            yield f"unix://{place}/socket"
        finally:
            process.kill()
            process.wait()


def test_a_store_in_redis_is_exported_and_imported_and_keeps_all(
    nodes: RunningCluster, redis: str, tmp_path: Path
) -> None:
    store = open_store(redis)
    scheduler = BackgroundScheduler(jobstores={"default": store}, timezone="UTC")
    scheduler.start(paused=True)
    scheduler.add_job(send, "cron", hour=2, id="from-redis", args=[7, str(tmp_path)])
    scheduler.add_job(send, "interval", hours=1, id="gone", args=[8, "/"], next_run_time=None)
    state = pickle.loads(store.redis.hget("apscheduler.jobs", "gone")) | {"func": "a_module_that_is_gone:send"}
    store.redis.hset("apscheduler.jobs", "gone", pickle.dumps(state))
    before = store.redis.hgetall("apscheduler.jobs")
    file = tmp_path / "apscheduler.json"
    file.write_text(json.dumps(export(redis)))
    assert store.redis.hgetall("apscheduler.jobs") == before
    scheduler.shutdown()
    template = ("--handler-template", "python:{module}:{function}")
    url = nodes.servers.partition(",")[0]
    for _ in range(2):  # the second time changes nothing
        done = command(url, "jobs", "import", str(file), *template)
        assert done.exit_code == 0, done.output
        assert job(nodes, "from-redis").params == {"number": 7, "to": str(tmp_path)}
        assert (job(nodes, "gone").state, job(nodes, "gone").revision) == ("NEW", 1), "it was paused"


def test_to_move_the_program_takes_no_more_lines_than_these() -> None:
    before, after = ((EXAMPLE / name).read_text().splitlines() for name in ("before.py", "app.py"))
    changes = [line for line in difflib.ndiff(before, after) if line[:2] in ("+ ", "- ") and line[2:].strip()]
    written = [line for line in changes if line.startswith("+ ") and '"""' not in line]
    assert len(written) <= MOVED_MAX, "\n".join(written)
    assert any("JobStore()" in line for line in written)
