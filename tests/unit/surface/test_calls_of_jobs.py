"""The code that scripts/make-client writes for methods that mean a job, or send a body that is one argument."""

from __future__ import annotations

import pytest

from raftsched.surface import bulk, job_actions, jobs, schedules
from raftsched.surface.operation import Operation
from scripts.make_client import method


def code_of(one: Operation) -> str:
    """Returns the method of the operation, in one line."""
    (sdk,) = one.methods
    return " ".join(method(one, sdk).split())


def test_a_job_is_meant_by_any_reference() -> None:
    code = code_of(job_actions.RESUME)
    assert "async def resume(self, ref: JobRef) -> Job:" in code
    assert 'self._transport.post(Job, f"{job_path(ref)}/resume")' in code


def test_an_operation_is_meant_by_its_id() -> None:
    assert 'f"/v1/operations/{segment(id_of(ref))}"' in code_of(bulk.GET)


def test_an_argument_may_be_the_whole_body() -> None:
    code = code_of(jobs.PUT)
    assert "job: JobSpec, *, if_match: JobVersion | None = None" in code
    assert "body=encode(job), headers=job_condition(if_match)" in code


def test_what_changes_nothing_is_repeated_whatever_it_depends_on() -> None:
    assert "headers=job_condition(if_match), repeatable=True" in code_of(jobs.CHECK_CHANGE)


def test_what_changes_nothing_has_a_key_all_the_same() -> None:
    """So that a proxy, or a node of a later version, may take a repeat for one."""
    assert "self._transport.post(Crontab," in code_of(schedules.CONVERT_CRONTAB)


def test_of_several_answers_the_one_that_is_named_is_read() -> None:
    code = code_of(job_actions.BACKFILL)
    assert "-> Backfilled:" in code
    assert "self._transport.post(Backfilled," in code


@pytest.mark.parametrize("name", ["start", "end"])
def test_an_argument_may_be_sent_under_another_name(name: str) -> None:
    sent = {"start": "from", "end": "to"}[name]
    assert f'"{sent}": {name}' in code_of(job_actions.BACKFILL)
