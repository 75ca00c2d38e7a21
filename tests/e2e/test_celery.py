"""Celery on a real Redis: beats that share a schedule, and runs that send a task and follow it."""

from __future__ import annotations

import difflib
import json
import os
import random
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from raftsched import Instance
from raftsched.testing import RunningCluster, running_cluster
from scripts.trials.beats_killed import run_beats
from tests.support.cluster import ROOT, Cluster
from tests.support.patience import patient, wait_until
from tests.support.redis_server import serving

pytestmark = pytest.mark.e2e

EXAMPLE = ROOT / "examples" / "celery-beat"
APPS = Path(__file__).parent / "handlers"
LINES_MAX = 5  # of a user's code, to move a beat


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.fixture(scope="module")
def cluster() -> Iterator[RunningCluster]:
    with running_cluster(1, handlers=["raftsched.celery"]) as cluster:
        cluster.client.cluster.set_settings(worker_ttl="4s")
        yield cluster


@pytest.fixture
def queue(broker: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(broker) as client:
        client.flushdb()
        yield client


@contextmanager
def celery(*words: str, at: Path, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program of Celery; it is gone at the end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAFTSCHED_")}
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", *words],
            cwd=at,
            env={**env, "PYTHONPATH": str(ROOT), **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(condition: Callable[[], object], what: str, log: Path, *alive: subprocess.Popen[bytes]) -> None:
    """Waits, as long as these programs live."""

    def over() -> bool:
        return bool(condition()) or any(process.poll() is not None for process in alive)

    wait_until(over, lambda: f"{what}\n{log.read_text()}")
    assert condition(), f"{what}: it ended by itself\n{log.read_text()}"


def sent(queue: redis.Redis) -> list[dict[str, Any]]:
    """Returns the headers of the tasks that wait, the oldest first."""
    return [json.loads(raw)["headers"] for raw in reversed(queue.lrange("celery", 0, -1))]


def test_moving_a_beat_is_a_line_and_one_of_two_may_be_killed(
    cluster: RunningCluster, queue: redis.Redis, broker: str, tmp_path: Path
) -> None:
    before, after = ((EXAMPLE / place).read_text().splitlines() for place in ("before/shop.py", "shop.py"))
    changed = [line for line in difflib.ndiff(before, after) if line.startswith(("+", "-"))]
    assert 0 < len(changed) <= LINES_MAX, changed
    told = {"BROKER": broker, "RAFTSCHED_SERVER": cluster.servers, "XDG_STATE_HOME": str(tmp_path / "state")}
    log = tmp_path / "beats.log"

    def more() -> bool:
        return len({one["raftsched_run"] for one in sent(queue)}) > len(seen)

    seen: set[str] = set()
    beat = ["-A", "shop", "beat", "--loglevel", "info"]
    with celery(*beat, at=EXAMPLE, log=log, **told) as first, celery(*beat, at=EXAMPLE, log=log, **told) as other:
        until(lambda: len(list(cluster.client.workers.list())) == 2, "two beats", log, first, other)
        until(more, "a task", log, first, other)
        first.kill()
        first.wait()
        seen = {one["raftsched_run"] for one in sent(queue)}
        until(more, "a task of the other beat", log, other)
        other.send_signal(signal.SIGTERM)
        assert other.wait(patient(30)) == 0
    (job,) = cluster.client.jobs.list(label="celery-beat=shop")
    assert job.name == "shop.invoices"
    assert job.expires == "10m"
    cluster.client.jobs.pause(job)


def test_a_beat_that_dies_between_sending_and_reporting_is_named(
    cluster: RunningCluster, queue: redis.Redis, broker: str, tmp_path: Path
) -> None:
    told = {
        "BROKER": broker,
        "DIES_ONCE": str(tmp_path / "died"),
        "RAFTSCHED_SERVER": cluster.servers,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    log = tmp_path / "beats.log"
    beat = ["-A", "dies_after_sending", "beat", "-S", "raftsched.celery:Scheduler", "--loglevel", "info"]
    with celery(*beat, at=APPS, log=log, **told) as first:
        assert first.wait(patient(60)) == -signal.SIGKILL, log.read_text()
    with celery(*beat, at=APPS, log=log, **told) as other:
        until(lambda: len(sent(queue)) >= 2, "the task again", log, other)
        job = cluster.client.jobs.get("default/dying.once")
        run = cluster.client.instances.wait(str(job.last_instance), timeout=patient(60))
    one, again = sent(queue)
    assert one["id"] == again["id"] == run.result["task_id"]
    assert (one["raftsched_attempt"], again["raftsched_attempt"]) == (1, 2)
    assert [attempt.outcome for attempt in run.attempts] == ["lost", "succeeded"]
    assert run.result["again"] is True


def test_rows_of_a_database_are_jobs_and_follow_it(
    cluster: RunningCluster, queue: redis.Redis, broker: str, tmp_path: Path
) -> None:
    told = {
        "BROKER": broker,
        "ROWS": str(tmp_path / "rows.sqlite"),
        "RAFTSCHED_SERVER": cluster.servers,
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    log = tmp_path / "beat.log"

    def rows(word: str) -> str:
        env = {**os.environ, **told, "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, str(APPS / "rows.py"), word], env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def states() -> dict[str | None, str]:
        return {job.name: str(job.state) for job in cluster.client.jobs.list(label="celery-beat=rows")}

    rows("make")
    with celery("-A", "rows", "beat", "--loglevel", "info", at=APPS, log=log, **told) as beat:
        until(lambda: queue.llen("often") and queue.llen("celery"), "both tasks", log, beat)
        made = {"rows.often": "SCHEDULED", "rows.only-once": "EXPIRED", "rows.nightly": "NEW"}
        until(lambda: states() == made, "the jobs of the rows", log, beat)
        nightly = cluster.client.jobs.get("default/rows.nightly")
        assert nightly.trigger == {"cron": "30 2 * * *", "timezone": "Europe/Madrid"}
        once = cluster.client.jobs.get("default/rows.only-once")
        assert cluster.client.instances.wait(str(once.last_instance), timeout=patient(60)).state == "SUCCEEDED"
        assert json.loads(rows("change")) == {"often": True, "only once": False, "nightly": False, "dusk": True}
        changed = {"rows.often": "SUSPENDED", "rows.only-once": "EXPIRED", "rows.nightly": "SCHEDULED"}
        until(lambda: states() == changed, "the changed rows", log, beat)
        assert queue.llen("celery") == 1
    assert "the row dusk is not sent: it is due by the sun" in log.read_text()


def test_a_run_follows_the_task_that_it_sends(
    cluster: RunningCluster, queue: redis.Redis, broker: str, tmp_path: Path
) -> None:
    handler: dict[str, Any] = {
        "call": "celery.send",
        "env": {"CELERY_BROKER_URL": broker, "CELERY_RESULT_BACKEND": broker},
    }
    log, place = tmp_path / "worker.log", tmp_path / "place"

    def begun(task: str, retry: bool = False, **params: Any) -> str:
        more: Any = {"retry": {"delays": ["1s"]}} if retry else {}
        spec = {"handler": handler, "params": {"task": f"followed.{task}", "args": [str(place)], **params}, **more}
        return cluster.client.jobs.run(cluster.client.jobs.create(trigger={"manual": True}, **spec)).id

    def ended(run: str) -> Instance:
        return cluster.client.instances.wait(run, timeout=patient(60))

    plain = [ended(begun("fails_once")) for _ in range(2)]
    assert {one.state for one in plain} == {"SUCCEEDED"}
    messages = sent(queue)
    assert [one["id"] for one in messages] == [one.result["task_id"] for one in plain]
    assert len({one["origin"] for one in messages}) == 1, "the process stays, with Celery in it"
    queue.delete("celery")
    worker = ["-A", "followed", "worker", "-c", "1", "-l", "info", "--without-mingle"]
    with celery(*worker, at=APPS, log=log, BROKER=broker) as working:
        followed = ended(begun("fails_once", retry=True, follow=True))
        assert followed.state == "SUCCEEDED", (followed, log.read_text())
        assert followed.result["result"] == "the second time"
        first = followed.attempts[0]
        assert "the first time" in str(first.error)
        assert followed.result["task_id"] not in str(first.error)
        # One that waits behind another one: revoked, it never runs.
        slow = begun("waits", follow=True)
        until(place.with_suffix(".begun").exists, "the slow task", log, working)
        waiting = begun("fails_once", follow=True, args=[str(tmp_path / "never")])
        until(lambda: log.read_text().count("received") >= 4, "both tasks", log, working)
        cluster.client.instances.kill(waiting)
        assert ended(waiting).state == "KILLED"
        place.with_suffix(".go").touch()
        assert ended(slow).state == "SUCCEEDED"
        until(lambda: "revoked" in log.read_text(), "the revoked task", log, working)
    assert not (tmp_path / "never").exists()


def test_each_due_time_is_sent_though_beats_and_leaders_are_killed(broker: str, queue: redis.Redis) -> None:
    """A bounded share of scripts/beats."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    with Cluster(3) as nodes:
        found = run_beats(nodes, broker, random.Random(seed), print, beats=2, entries=5, times=6, pause_s=(0.5, 2.0))
    assert not found.wrong, (seed, found)
    assert found.counts["due times"] == 30
    assert found.counts["missing"] == 0
