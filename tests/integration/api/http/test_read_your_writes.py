"""What was done at another node a moment ago: it is not refused here as unknown, and no answer claims to show what it
does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from raftsched.api.auth.unknown_tokens import WAITING_MAX, WAITING_MAX_EACH
from raftsched.api.ports import Reply
from raftsched.core.commands import CreateJob, EditJob
from raftsched.core.ids import job_text
from raftsched.core.model import Job, Policy, Trigger, TriggerKind
from raftsched.core.subjects.access import CreateToken, Role
from raftsched.core.subjects.secret import PutSecret
from raftsched.core.tables import ReadView
from tests.integration.api.http.test_fastpath import BODY, ORDINARY, read_answer, request
from tests.support.local_api import Client, run
from tests.support.tokens import As, guarded, unknown


class Elsewhere:
    """What other nodes did, and this one applies as soon as it asks how far the leader has committed."""

    def __init__(self, call: Client, act: Callable[[], None] | None = None) -> None:
        self.asked = 0
        self.answers = True  # else there is no leader
        self._call = call
        self._act = act
        call.context.log.committed = self._committed

    async def _committed(self, timeout: float) -> int | None:
        self.asked += 1
        act, self._act = self._act, None
        if act is not None:
            act()
        return self._call.cluster.store.applied_index if self.answers else None


def create(call: Client, name: str) -> Job:
    (answer,) = call.cluster.apply(CreateJob("default", name, Policy(trigger=Trigger(kind=TriggerKind.MANUAL)), BODY))
    job: Job = answer.job  # type: ignore[union-attr]
    return job


# ---------------------------------------------------------------- Raftsched-Index


async def test_a_read_does_not_claim_what_was_applied_meanwhile(call: Client) -> None:
    """Who reads a list asks for the events after its index: what it lacks must come after that."""
    job = create(call, "a")
    path, store = f"/v1/jobs/{job_text(job.id)}", call.cluster.store
    before = store.applied_index
    read = call.context.read
    assert (await call("GET", path))[0] == 200  # who may ask is known from now on

    @contextmanager
    def read_and_apply() -> Iterator[ReadView]:
        with read() as view:
            yield view
        if store.applied_index == before:
            create(call, "b")

    call.context.read = read_and_apply
    status, _ = await call("GET", path)
    assert (status, call.headers["Raftsched-Index"]) == (200, str(before))
    assert store.applied_index > before
    assert "Raftsched-Stale" not in call.headers


async def test_a_refusal_says_that_the_leader_was_not_heard(call: Client) -> None:
    """As one that has just started, or is cut off: another node may know what this one has not heard of."""
    path = "/v1/namespaces/default/jobs/elsewhere"
    assert (await call("GET", path))[0] == 404
    assert "Raftsched-Stale" not in call.headers

    Elsewhere(call).answers = False
    assert (await call("GET", path))[0] == 404
    assert call.headers["Raftsched-Stale"] == "true"
    create(call, "elsewhere")
    assert (await call("GET", path))[0] == 200
    assert "Raftsched-Stale" not in call.headers


async def test_a_read_at_the_leader_shows_what_was_applied_before_it(call: Client) -> None:
    barrier = call.context.log.barrier

    async def passed(timeout: float) -> None:
        create(call, "a")
        await barrier(timeout)

    call.context.log.barrier = passed
    status, page = await call("GET", "/v1/jobs?consistency=leader")
    assert (status, [job["name"] for job in page["items"]]) == (200, ["a"])
    assert call.headers["Raftsched-Index"] == str(call.cluster.store.applied_index)


async def test_an_answer_to_a_write_reaches_as_far_as_it(call: Client) -> None:
    job = create(call, "a")
    status, _ = await call("POST", f"/v1/jobs/{job_text(job.id)}/run", {})
    assert (status, call.headers["Raftsched-Index"]) == (202, str(call.cluster.store.applied_index))


async def test_an_answer_to_a_batch_reaches_as_far_as_its_jobs(call: Client) -> None:
    def then(commands: Sequence[bytes], timeout: float, reply: Reply) -> None:
        """As a node does it: no task of the request waits for the answers."""
        asyncio.get_running_loop().call_soon(lambda: reply(call.cluster.apply_raw(commands), None))

    call.context.log.propose_then = then
    status, _ = await call("POST", "/v1/jobs:batch", [msgspec.json.decode(BODY)] * 3)
    assert (status, call.headers["Raftsched-Index"]) == (200, str(call.cluster.store.applied_index))


async def test_an_answer_that_waited_for_an_operation_reaches_as_far_as_its_end(call: Client) -> None:
    cluster = call.cluster
    for name in ("a", "b", "c", "d"):
        create(call, name)
    cluster.carries_out = False

    async def wait_applied(index: int, timeout: float) -> bool:
        cluster.carry_out()
        return True

    call.context.log.wait_applied = wait_applied
    status, answer = await call("DELETE", "/v1/jobs?all=true")
    assert (status, answer["deleted"]) == (200, 4)
    assert call.headers["Raftsched-Index"] == str(cluster.store.applied_index)


# ---------------------------------------------------------------- what was made elsewhere


@pytest.mark.parametrize("body", [None, {"params": {"a": 1}}], ids=["empty", "with a body"])
async def test_what_refers_to_a_job_that_was_just_made_elsewhere(call: Client, body: Any) -> None:
    elsewhere = Elsewhere(call, lambda: create(call, "a") and None)
    status, answer = await call("POST", "/v1/namespaces/default/jobs/a/run", body)
    assert status == 202, answer
    assert elsewhere.asked == 1


@pytest.mark.parametrize("path", ["", "/next", "/revisions", "/instances"])
async def test_reading_it(call: Client, path: str) -> None:
    elsewhere = Elsewhere(call, lambda: create(call, "a") and None)
    status, answer = await call("GET", f"/v1/namespaces/default/jobs/a{path}")
    assert (status, elsewhere.asked) == (200, 1), answer
    assert call.headers["Raftsched-Index"] == str(call.cluster.store.applied_index), "of when it looked again"


async def test_a_condition_on_what_was_done_elsewhere(call: Client) -> None:
    job = create(call, "a")
    policy = msgspec.structs.replace(job.policy, priority=3)
    Elsewhere(call, lambda: call.cluster.apply(EditJob(job.id, policy, BODY)) and None)
    status, answer = await call("PATCH", f"/v1/jobs/{job_text(job.id)}", {"owner": "me"}, {"If-Match": '"2"'})
    assert (status, answer.get("owner")) == (200, "me"), answer


async def test_a_comparison_that_names_a_secret(call: Client) -> None:
    Elsewhere(call, lambda: call.cluster.apply(PutSecret("default", "key", b"1")) and None)
    handler = {"shell": "true", "env": {"KEY": {"$secret": "key"}}}
    path = "/v1/namespaces/default/jobs/a/compare"
    status, answer = await call("POST", path, {"trigger": {"manual": True}, "handler": handler})
    assert (status, answer.get("result")) == (200, "created"), answer


async def test_what_is_not_there_is_refused_after_one_question(call: Client) -> None:
    elsewhere = Elsewhere(call)
    status, problem = await call("GET", f"/v1/jobs/{job_text(1)}")
    assert (status, problem["code"], elsewhere.asked) == (404, "not-found", 1)
    elsewhere.answers = False
    assert (await call("GET", f"/v1/jobs/{job_text(1)}"))[0] == 404
    status, _ = await call("GET", "/v1/jobs?limit=x")
    assert (status, elsewhere.asked) == (400, 2), "nobody is asked about what is wrong anywhere"


async def test_what_apply_refused_is_not_asked_about(call: Client) -> None:
    create(call, "a")
    elsewhere = Elsewhere(call, lambda: create(call, "b") and None)
    body = {"name": "a", "trigger": {"manual": True}, "handler": {"exec": ["false"]}}
    status, problem = await call("POST", "/v1/jobs", body, {"If-None-Match": "*"})
    assert (status, elsewhere.asked) == (412, 0) or (status, elsewhere.asked) == (409, 0), problem


# ---------------------------------------------------------------- tokens

SECRET = unknown("new")


def made_elsewhere(call: Client, secret: str, role: Role = Role.EDITOR) -> Callable[[], None]:
    return lambda: call.cluster.apply(CreateToken("new", role, sha256(secret.encode()).digest(), None, None)) and None


async def test_a_token_that_was_just_made_elsewhere(call: Client) -> None:
    await guarded(call)
    Elsewhere(call, made_elsewhere(call, SECRET))
    assert (await As(call, SECRET)("GET", "/v1/jobs"))[0] == 200


async def test_it_may_create_the_short_way_too(call: Client) -> None:
    await guarded(call)
    elsewhere = Elsewhere(call, made_elsewhere(call, SECRET))
    reader, writer = await asyncio.open_connection("127.0.0.1", int(call.url.rpartition(":")[2]))
    sent = request(extra=b"Authorization: Bearer " + SECRET.encode() + b"\r\n")
    writer.write(sent + sent)
    for _ in range(2):
        status, _, answer = await read_answer(reader)
        assert status == 201, answer
    assert elsewhere.asked == 1
    writer.write(request(extra=b"Authorization: Bearer of-nobody\r\n"))
    status, headers, _ = await read_answer(reader)
    assert (status, "invalid_token" in headers["www-authenticate"]) == (401, True)
    writer.close()
    await writer.wait_closed()


async def test_a_token_that_nobody_made_costs_one_question(call: Client) -> None:
    await guarded(call)
    elsewhere = Elsewhere(call)
    stranger = As(call, unknown("of-nobody"))
    for _ in range(20):
        assert (await stranger("GET", "/v1/jobs"))[0] == 401
    assert elsewhere.asked == 1, "it is remembered"
    call.cluster.clock.forward(2_000)
    assert (await stranger("GET", "/v1/jobs"))[0] == 401
    assert elsewhere.asked == 2, "for a moment"
    assert (await As(call, "")("GET", "/v1/jobs"))[0] == 401
    assert elsewhere.asked == 2, "none is no token"


async def test_without_a_leader_it_is_not_known_whether_it_is_new(call: Client) -> None:
    people = await guarded(call)
    elsewhere = Elsewhere(call)
    elsewhere.answers = False
    status, problem = await As(call, unknown("of-nobody"))("GET", "/v1/jobs")
    assert (status, problem["code"]) == (503, "behind")
    assert (await people["viewer"]("GET", "/v1/jobs"))[0] == 200


@pytest.mark.parametrize("odd", ["of-nobody", "rs_", "rs_" + "a" * 43, unknown("x")[:-1], unknown("x") + "A"])
async def test_what_cannot_be_a_token_is_refused_at_once(call: Client, odd: str) -> None:
    people = await guarded(call)
    elsewhere = Elsewhere(call)
    elsewhere.answers = False
    for extra in (b"", ORDINARY):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(call.url.rpartition(":")[2]))
        writer.write(request(extra=extra + b"Authorization: Bearer " + odd.encode() + b"\r\n"))
        status, headers, _ = await read_answer(reader)
        assert (status, "invalid_token" in headers["www-authenticate"]) == (401, True)
        writer.close()
        await writer.wait_closed()
    assert elsewhere.asked == 0
    call.cluster.apply(CreateToken("own", Role.VIEWER, sha256(odd.encode()).digest(), None, None))
    assert (await As(call, odd)("GET", "/v1/jobs"))[0] == 200, "who has one of his own is known"
    assert people


def test_so_many_of_one_address_wait_at_a_time(tmp_path: Path) -> None:
    async def test(call: Client) -> None:
        people = await guarded(call)
        go, waiting = asyncio.Event(), 0

        async def committed(timeout: float) -> int | None:
            nonlocal waiting
            waiting += 1
            await go.wait()
            return call.cluster.store.applied_index

        call.context.log.committed = committed
        asked = [
            asyncio.ensure_future(As(call, unknown(f"of-nobody-{i}"))("GET", "/v1/jobs"))
            for i in range(WAITING_MAX_EACH + 5)
        ]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 5:
            more, _ = await asyncio.wait(set(asked) - done, return_when=asyncio.FIRST_COMPLETED)
            done |= more
        assert {(await one)[0] for one in done} == {503}
        assert (await people["viewer"]("GET", "/v1/jobs"))[0] == 200, "who is known passes"
        go.set()
        assert sorted([(await one)[0] for one in asked]) == [401] * WAITING_MAX_EACH + [503] * 5
        assert waiting == WAITING_MAX_EACH

    assert WAITING_MAX > WAITING_MAX_EACH
    run(tmp_path, test)
