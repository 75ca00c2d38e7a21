"""A node without memory says what it knows: that nothing was done, or that it may have been."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.jobs import joined
from raftsched.core.subjects.cluster import Member
from raftsched.raft.membership.configuration import added
from tests.integration.api.http.test_fastpath import ORDINARY, request, talk
from tests.integration.api.http.test_fastpath import read_answer as answer_of
from tests.support.local_api import Client

JOB = {"name": "a", "trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}
BY_THE_ORDINARY_WAY = {"X-Unknown-To-The-Short-Way": "1"}
both_ways = pytest.mark.parametrize("extra", [b"", ORDINARY], ids=["fast path", "fallback"])


def runs_out(*_: Any, **__: Any) -> Any:
    raise MemoryError


def failing(patch: pytest.MonkeyPatch, *places: str) -> None:
    for place in places:
        patch.setattr(place, runs_out)


def created(directory: Path, extra: bytes) -> tuple[int, str, str, int]:
    """Of a POST: status, code, Retry-After, and how many proposals there were."""
    seen: list[tuple[int, str, str, int]] = []

    async def test(reader: Any, writer: Any, call: Client) -> None:
        writer.write(request(extra=extra))
        status, headers, body = await answer_of(reader)
        seen.append((status, body["code"], headers.get("retry-after", ""), call.cluster.proposals))

    talk(directory, test)
    return seen[0]


@both_ways
def test_before_the_proposal_nothing_was_done(tmp_path: Path, extra: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "raftsched.api.jobs.alike.AlikeJobs.read", "raftsched.api.jobs.endpoints.read_job")
    assert created(tmp_path, extra) == (503, "overloaded", "1", 0)


@both_ways
def test_after_the_proposal_it_is_not_known(tmp_path: Path, extra: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "raftsched.api.http.fast_answers.job_json", "raftsched.api.http.replies.job_json")
    assert created(tmp_path, extra) == (504, "unknown-outcome", "", 1)


@both_ways
def test_what_is_known_of_one_request_says_nothing_of_the_next(
    tmp_path: Path, extra: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the same connection."""

    async def test(reader: Any, writer: Any, call: Client) -> None:
        for place, code in (("job_json", "unknown-outcome"), ("read_job", "overloaded")):
            with monkeypatch.context() as patch:
                if place == "job_json":
                    failing(patch, "raftsched.api.http.fast_answers.job_json", "raftsched.api.http.replies.job_json")
                else:
                    failing(patch, "raftsched.api.jobs.alike.AlikeJobs.read", "raftsched.api.jobs.endpoints.read_job")
                writer.write(request(extra=extra))
                assert (await answer_of(reader))[2]["code"] == code

    talk(tmp_path, test)


async def test_reads_may_be_sent_again(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a write over the same connection."""
    status, job = await call("POST", "/v1/jobs", JOB, BY_THE_ORDINARY_WAY)
    assert status == 201
    failing(monkeypatch, "raftsched.api.http.replies.job_json")
    status, problem = await call("GET", f"/v1/jobs/{job['id']}")
    assert (status, problem["code"], call.headers["Retry-After"]) == (503, "overloaded", "1")


async def test_before_anybody_is_known(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await call("POST", "/v1/jobs", JOB, BY_THE_ORDINARY_WAY))[0] == 201
    failing(monkeypatch, "raftsched.api.auth.access.identify")
    status, problem = await call("GET", "/v1/jobs")
    assert (status, problem["code"]) == (503, "overloaded")


async def test_a_part_of_a_batch(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first part is on its way when there is no memory for the second."""
    monkeypatch.setattr("raftsched.api.jobs.batch.JOBS_MAX", 1)
    create = joined.create_command
    made: list[bytes] = []

    def once(*given: Any, **more: Any) -> bytes:
        made.append(b"" if made else create(*given, **more))
        return made[-1] or runs_out()

    monkeypatch.setattr(joined, "create_command", once)
    status, problem = await call("POST", "/v1/jobs:batch", [JOB, {**JOB, "name": "b"}])
    assert (status, problem["code"]) == (504, "unknown-outcome")


async def _transfer(call: Client) -> tuple[int, Any]:
    return await call("POST", "/v1/cluster/leader", {})


async def _remove(call: Client) -> tuple[int, Any]:
    return await call("DELETE", "/v1/cluster/members/n2")


@pytest.mark.parametrize("ask", [_transfer, _remove], ids=["leadership", "members"])
async def test_members_and_leadership(call: Client, ask: Callable[[Client], Awaitable[tuple[int, Any]]]) -> None:
    call.cluster.members = added(call.cluster.members, Member("n2", "127.0.0.1:9", b"n2"))
    call.cluster.failure = MemoryError()  # type: ignore[assignment]
    status, problem = await ask(call)
    assert (status, problem["code"]) == (504, "unknown-outcome")
