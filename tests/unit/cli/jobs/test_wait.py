"""`jobs wait`: for what, for how long, and through what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from raftsched.cli.jobs import wait as jobs_wait
from tests.support.stub_server import Reply, Request, problem, serve
from tests.unit.cli.house import ID, INSTANCE, JOB, run

OTHER = f"{ID}@1763600500000"
IDLE = {**JOB, "active": 0}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_wait, "_FIRST_LOOK_S", 0.001)
    monkeypatch.setattr(jobs_wait, "_LOOK_S", 0.001)


def plays(**parts: Iterator[Any]) -> Callable[[Request], Reply]:
    """Answers of jobs and of instances, one after the other; the last stays."""
    last: dict[str, Any] = {}

    def answer(request: Request) -> Reply:
        part = "instance" if "@" in request.path or "%40" in request.path else "job"
        last[part] = next(parts[part], last.get(part))
        return last[part] if isinstance(last[part], tuple) else (200, last[part])

    return answer


def instance(state: str, **more: Any) -> dict[str, Any]:
    return {"id": INSTANCE, "state": state, **more}


def waits(answer: Callable[[Request], Reply], *words: str) -> tuple[int, str, str]:
    with serve(answer) as stub:
        result = run("--server", stub.url, "jobs", "wait", *words)
    return result.exit_code, result.stdout, result.stderr


def test_an_instance_until_it_ends_also_while_there_is_no_leader() -> None:
    answers = [
        problem(404, "not-found", "not yet"),
        instance("WAITING"),
        problem(503, "no-leader", "no"),
        instance("RUNNING"),
        instance("SUCCEEDED"),
    ]
    assert waits(plays(instance=iter(answers)), INSTANCE) == (0, f"SUCCEEDED: {INSTANCE}\n", "")


def test_a_run_that_failed_is_exit_1_and_says_why() -> None:
    ended = instance("FAILED", error="exit 3", reason=None)
    assert waits(plays(instance=iter([ended])), INSTANCE) == (1, f"FAILED: {INSTANCE}: exit 3\n", "")
    ended = instance("KILLED", error="exit 3", reason="cancelled")
    assert waits(plays(instance=iter([ended])), INSTANCE) == (1, f"KILLED: {INSTANCE}: cancelled: exit 3\n", "")


def test_of_a_job_the_run_that_is_under_way() -> None:
    job = {**JOB, "active": 1, "last_instance": INSTANCE}
    code, out, _ = waits(plays(job=iter([job]), instance=iter([instance("SUCCEEDED")])), "tick")
    assert (code, out) == (0, f"SUCCEEDED: tick ({INSTANCE})\n")


def test_of_a_job_that_is_idle_the_next_run() -> None:
    jobs = [{**IDLE, "last_instance": OTHER}] * 3 + [{**IDLE, "last_instance": INSTANCE}]
    code, out, _ = waits(plays(job=iter(jobs), instance=iter([instance("TIMED_OUT")])), "tick")
    assert (code, out) == (1, f"TIMED_OUT: tick ({INSTANCE})\n")


def test_a_one_shot_that_has_run_is_told_at_once_and_one_that_never_will_too() -> None:
    over = {**IDLE, "state": "EXPIRED", "last_instance": INSTANCE}
    assert waits(plays(job=iter([over]), instance=iter([instance("SUCCEEDED")])), "tick")[0] == 0
    never = {**IDLE, "state": "EXPIRED", "last_instance": None}
    code, _, err = waits(plays(job=iter([never])), "tick")
    assert (code, "will not run again" in err) == (1, True)


def test_states_idle_and_deleted() -> None:
    jobs = [{**JOB, "active": 1}, {**JOB, "active": 1}, IDLE]
    assert waits(plays(job=iter(jobs)), "tick", "--for", "idle") == (0, "idle: tick\n", "")
    jobs = [IDLE, {**IDLE, "state": "SUSPENDED"}]
    assert waits(plays(job=iter(jobs)), "tick", "--for", "suspended") == (0, "SUSPENDED: tick\n", "")
    gone = [IDLE, problem(404, "not-found", "gone")]
    assert waits(plays(job=iter(gone)), "tick", "--for", "deleted") == (0, "deleted: tick\n", "")


def test_the_time_is_up_with_7_and_what_was_missing() -> None:
    code, out, err = waits(plays(job=iter([IDLE])), "tick", "--for", "EXPIRED", "--timeout", "1ms")
    assert (code, out, err) == (7, "", "raftsched: gave up waiting: tick is not EXPIRED\n")
    code, _, err = waits(plays(job=iter([problem(503, "no-leader", "No leader.")])), "tick", "--timeout", "1ms")
    assert (code, "No leader." in err) == (7, True)


def test_what_was_there_and_is_gone_is_exit_3() -> None:
    answers = [instance("RUNNING"), problem(404, "not-found", "gone")]
    assert waits(plays(instance=iter(answers)), INSTANCE)[0] == 3


@pytest.mark.parametrize(
    "words", [["tick", "--for", "x"], [INSTANCE, "--for", "idle"], ["tick", "--timeout", "soon"], ["a@b"]]
)
def test_usage(words: list[str]) -> None:
    assert run("--server", "http://127.0.0.1:1", "jobs", "wait", *words).exit_code == 2
