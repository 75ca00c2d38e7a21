"""raftsched.AsyncClient against servers that are written down: whom it asks, what it sends again, how it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import raftsched
from raftsched.client import creates
from raftsched.client.errors import ClientError
from raftsched.errors import Exit
from tests.support import ports
from tests.support.patience import patient
from tests.support.stub_server import Reply, Request, problem, serve
from tests.unit.client.pauses import skip_pauses

JOB: raftsched.JobSpec = {"trigger": {"in": "30m"}, "handler": {"shell": "true"}}
MADE = {"id": "0d3k5xw2a9f4m", "state": "SCHEDULED", "revision": 1, "name": None, "namespace": "default"}
_NOT_YET = ("next_fire_at", "last_instance", "last_start_at", "last_end_at", "last_executor", "error")
MADE_JOB = {
    **MADE, **dict.fromkeys(_NOT_YET),
    "created_at": "2030-01-01T00:00:00Z", "modified_at": "2030-01-01T00:00:00Z", "trigger": {}, "handler": {},
    "running": 0, "active": 0, "runs": 0, "failures_in_a_row": 0,
}  # fmt: skip
NO_LEADER = problem(503, "no-leader", "No leader.")


def closed_port() -> str:
    return f"http://127.0.0.1:{ports.closed_port()}"


def client(*urls: str, timeout: float = 10.0) -> raftsched.AsyncClient:
    return raftsched.AsyncClient(urls, timeout=patient(timeout), discover=False)


def script(*replies: Reply | Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """One after the other; the last one from then on."""
    rest = list(replies)

    def answer(request: Request) -> Reply:
        reply = rest.pop(0) if len(rest) > 1 else rest[0]
        return reply(request) if callable(reply) else reply

    return answer


def batch(request: Request) -> Reply:
    return 200, {"items": [{"status": 201, **MADE, "id": f"{i:013d}"} for i in range(len(request.json))]}


def test_what_did_not_get_anywhere_goes_to_the_next_node() -> None:
    async def main() -> None:
        with serve(script((201, MADE))) as stub:
            async with client(closed_port(), stub.url) as c:
                made = await c.jobs.create(JOB)
                assert (made.id, made.created) == (MADE["id"], True)
                assert stub.requests[0].json == JOB

    asyncio.run(main())


def test_a_lone_create_is_sent_again_under_the_same_key() -> None:
    async def main() -> None:
        with serve(script((0, None), problem(504, "unknown-outcome", "?"), NO_LEADER, (201, MADE))) as stub:
            async with client(stub.url) as c:
                await c.jobs.create(JOB)
            keys = {r.headers["idempotency-key"] for r in stub.requests}
            assert len(stub.requests) == 4
            assert len(keys) == 1, "each attempt is the same request"

    asyncio.run(main())


def test_creates_of_one_turn_go_in_one_batch_and_those_after_it_in_the_next() -> None:
    async def main() -> None:
        with serve(batch) as stub:
            async with client(stub.url) as c:
                jobs = [{**JOB, "params": {"n": n}} for n in range(40)]
                made = await asyncio.gather(*(c.jobs.create(job) for job in jobs))  # type: ignore[arg-type]
            assert [m.id for m in made] == [f"{n:013d}" for n in range(40)]
            (request,) = stub.requests
            assert request.path == "/v1/jobs:batch"
            assert request.json == jobs

    asyncio.run(main())


def test_what_is_asked_for_meanwhile_goes_together() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        arrived, go_on = asyncio.Event(), __import__("threading").Event()

        def first(request: Request) -> Reply:
            loop.call_soon_threadsafe(arrived.set)
            assert go_on.wait(patient(30))
            return 201, MADE

        with serve(script(first, batch)) as stub:
            async with client(stub.url) as c:
                one = asyncio.create_task(c.jobs.create(JOB))
                await arrived.wait()
                rest = [asyncio.create_task(c.jobs.create(JOB)) for _ in range(5)]
                await asyncio.sleep(0)
                go_on.set()
                await asyncio.gather(one, *rest)
            assert [r.path for r in stub.requests] == ["/v1/jobs", "/v1/jobs:batch"]
            assert len(stub.requests[1].json) == 5

    asyncio.run(main())


def test_a_batch_that_was_not_answered_is_sent_again_as_it_was() -> None:
    async def main() -> None:
        with serve(script((0, None), (0, None), batch)) as stub:
            async with client(stub.url) as c:
                made = await asyncio.gather(c.jobs.create(JOB, name="a"), c.jobs.create(JOB), c.jobs.create(JOB))
            assert len({m.id for m in made}) == 3
            assert len(stub.requests) == 3
            assert len({r.headers["idempotency-key"] for r in stub.requests}) == 1
            assert len({r.body for r in stub.requests}) == 1

    asyncio.run(main())


def test_each_batch_has_a_key_of_its_own() -> None:
    async def main() -> None:
        with serve(batch) as stub:
            async with client(stub.url) as c:
                for _ in range(3):
                    await asyncio.gather(*(c.jobs.create(JOB) for _ in range(2)))
            assert len({r.headers["idempotency-key"] for r in stub.requests}) == len(stub.requests) == 3

    asyncio.run(main())


def test_items_of_a_batch_end_each_for_itself() -> None:
    def item(status: int, code: str) -> Any:
        return problem(status, code, "why", ("/name", "is bad"))[1]

    answers = {
        "items": [
            {"status": 201, **MADE, "next_fire_at": "2030-01-01T00:30:00.000Z"},
            item(422, "invalid-job"),
            item(503, "overloaded"),
            item(504, "unknown-outcome"),
            item(409, "name-taken"),
        ]
    }
    made = {"status": 201, **MADE}
    later = {"items": [made, made, {**made, "id": "again"}, {**made, "id": "known now"}, made]}

    async def main() -> None:
        with serve(script((200, answers), (200, later))) as stub:
            async with client(stub.url) as c:
                results = await c.jobs.create_many([JOB] * 5)
            good, bad, again, unknown, taken = results
            assert isinstance(good, raftsched.Created)
            assert good.next_fire_at is not None
            assert good.next_fire_at.isoformat() == "2030-01-01T00:30:00+00:00"
            assert isinstance(bad, raftsched.InvalidError)
            assert (bad.status, bad.code, bad.detail) == (422, "invalid-job", "why")
            assert [(e.pointer, e.detail) for e in bad.errors] == [("/name", "is bad")]
            assert isinstance(again, raftsched.Created)
            assert isinstance(unknown, raftsched.Created)
            assert (again.id, unknown.id) == ("again", "known now")
            assert isinstance(taken, raftsched.ConflictError)
            first, second = stub.requests
            assert (first.body, first.headers["idempotency-key"]) == (second.body, second.headers["idempotency-key"])

    asyncio.run(main())


def test_no_more_wait_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creates, "WAITING_MAX", 5)
    held, seen = threading.Event(), 0

    def answer(request: Request) -> Reply:
        held.wait()
        return batch(request) if ":batch" in request.path else (201, MADE)

    async def main() -> None:
        nonlocal seen
        with serve(answer) as stub:
            async with client(stub.url) as c:
                first = asyncio.create_task(c.jobs.create(JOB))
                await asyncio.sleep(0)
                rest = [asyncio.create_task(c.jobs.create(JOB)) for _ in range(20)]
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                seen = len(c._creates._waiting)
                try:
                    with pytest.raises(raftsched.UnavailableError, match="was not sent"):
                        await c.within(0.05).jobs.create(JOB)
                finally:
                    held.set()
                await asyncio.gather(first, *rest)
            assert max(len(r.json) for r in stub.requests if ":batch" in r.path) <= 5

    asyncio.run(main())
    assert seen == 5


def test_what_nobody_knows_to_the_end_says_so() -> None:
    def answer(request: Request) -> Reply:
        return 200, {"items": [problem(504, "unknown-outcome", "Perhaps.")[1] for _ in request.json]}

    async def main() -> None:
        with serve(answer) as stub:
            async with client(stub.url, timeout=patient(0.4)) as c:
                results = await c.jobs.create_many([JOB] * 2)
            assert all(isinstance(r, raftsched.UnknownOutcomeError) for r in results)
            assert len({r.headers["idempotency-key"] for r in stub.requests}) == 1

    asyncio.run(main())


def test_a_call_may_have_a_time_of_its_own() -> None:
    held = threading.Event()

    def answer(request: Request) -> Reply:
        held.wait()
        return batch(request) if ":batch" in request.path else (201, MADE)

    async def main() -> None:
        with serve(answer) as stub:
            async with client(stub.url) as c:
                try:
                    brief = patient(0.1)  # it has to be sent in that time
                    with pytest.raises(raftsched.UnavailableError, match=f"within {brief:g} s"):
                        await c.within(brief).jobs.get("default/a")
                    with pytest.raises(raftsched.UnknownOutcomeError):
                        await c.within(brief).jobs.create(JOB)
                    slow = [asyncio.create_task(c.jobs.create(JOB)) for _ in range(2)]
                    await asyncio.sleep(0)
                    with pytest.raises(raftsched.UnavailableError, match="was not sent"):
                        await c.within(0.05).jobs.create(JOB)
                finally:
                    held.set()
                assert len(await asyncio.gather(*slow)) == 2, "others are not touched"

    asyncio.run(main())


def test_who_says_when_to_come_again_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses themselves would be far shorter."""
    pauses, asked = skip_pauses(monkeypatch), []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return problem(429, "too-many", "Slower.") if len(asked) < 3 else (200, MADE_JOB)

    async def main() -> None:
        with serve(answer, headers={"Retry-After": "1"}) as stub:
            async with client(stub.url) as c:
                assert (await c.jobs.get("default/a")).id == MADE_JOB["id"]
        assert len(asked) == 3
        assert len(pauses) == 2
        assert min(pauses) > 0.99

    asyncio.run(main())


def test_as_many_as_may_be_are_not_more_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the cluster's: one node says it for all."""
    skip_pauses(monkeypatch)
    asked: list[Request] = []

    def answer(request: Request) -> Reply:
        asked.append(request)
        return problem(429, "too-many", "20 operations are running.") if len(asked) < 2 else (200, MADE_JOB)

    async def main() -> None:
        with serve(answer, headers={"Retry-After": "1"}) as one, serve(answer, headers={"Retry-After": "1"}) as two:
            async with client(one.url, two.url) as c:
                await c.jobs.pause("default/a")
                assert len(asked) == 2
                assert asked[0].path == asked[1].path
                assert len(one.requests) == 2

    asyncio.run(main())


@pytest.mark.parametrize("status, code", [(429, "too-many"), (503, "overloaded")])
@pytest.mark.parametrize("read", [True, False], ids=["read", "write"])
def test_who_says_to_come_after_the_time_is_not_asked_again(status: int, code: str, read: bool) -> None:
    async def main() -> None:
        with serve(script(problem(status, code, "Later.")), headers={"Retry-After": "3600"}) as stub:
            async with client(stub.url, timeout=50.0) as c:
                with pytest.raises(raftsched.UnavailableError) as caught:
                    await (c.jobs.get("default/a") if read else c.jobs.pause("default/a"))
            assert caught.value.code == code
            assert len(stub.requests) == 1

    asyncio.run(main())


def test_too_many_of_something_that_does_not_become_less() -> None:
    """Nobody says when to come again: neither is it asked again."""

    async def main() -> None:
        with serve(script(problem(429, "quota", "10 is the limit."), (200, MADE_JOB))) as stub:
            async with client(stub.url) as c:
                with pytest.raises(raftsched.UnavailableError) as caught:
                    await c.jobs.pause("default/a")
            assert (caught.value.status, caught.value.code) == (429, "quota")
            assert len(stub.requests) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    "status, code, kind",
    [
        (409, "not-possible", raftsched.ConflictError),  # a namespace that is full, calendars enough
        (400, "invalid-parameter", raftsched.InvalidError),
        (404, "not-found", raftsched.NotFoundError),
        (410, "output-gone", raftsched.NotFoundError),
        (409, "illegal-transition", raftsched.ConflictError),
        (412, "stale-revision", raftsched.ConflictError),
        (507, "disk-full", raftsched.UnavailableError),
        (503, "output-unavailable", raftsched.UnavailableError),
        (500, "internal", raftsched.ClientError),
    ],
)
def test_refusals_are_not_sent_again(status: int, code: str, kind: type[raftsched.ClientError]) -> None:
    async def main() -> None:
        with serve(script(problem(status, code, "no", ("/x", "y")))) as stub:
            async with client(stub.url) as c:
                with pytest.raises(kind) as caught:
                    await c.jobs.pause("default/a")
            assert (caught.value.status, caught.value.code) == (status, code)
            assert len(stub.requests) == 1

    asyncio.run(main())


def test_no_node_within_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_pauses(monkeypatch)

    async def main() -> None:
        async with client(closed_port(), timeout=0.2) as c:
            with pytest.raises(raftsched.UnavailableError, match="No node answered") as caught:
                await c.jobs.get("default/a")
            assert caught.value.code == "unreachable"
        with serve(script(NO_LEADER)) as stub:
            async with client(stub.url, timeout=patient(4)) as c:
                with pytest.raises(raftsched.UnavailableError) as caught:
                    await c.jobs.pause("default/a")
                assert caught.value.code == "no-leader"
                assert len(stub.requests) > 1

    asyncio.run(main())


def test_what_may_have_been_done_says_so_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    skip_pauses(monkeypatch)

    async def main() -> None:
        with serve(script((0, None), NO_LEADER)) as stub:
            async with client(stub.url, timeout=patient(1)) as c:
                with pytest.raises(raftsched.UnknownOutcomeError):
                    await c.jobs.delete("default/a")

    asyncio.run(main())


def test_a_deletion_whose_answer_was_lost_is_done_when_nothing_is_there() -> None:
    gone = problem(404, "not-found", "none")

    async def main() -> None:
        with serve(script((0, None), gone)) as stub:
            async with client(stub.url) as c:
                await c.jobs.delete("default/a")
                with pytest.raises(raftsched.NotFoundError):
                    await c.jobs.delete("default/a")

    asyncio.run(main())


def test_a_lost_conditional_edit_is_not_called_a_conflict() -> None:
    async def main() -> None:
        with serve(script((0, None), problem(412, "stale-revision", "at 4"))) as stub:
            async with client(stub.url) as c:
                with pytest.raises(raftsched.UnknownOutcomeError):
                    await c.jobs.patch("0d3k5xw2a9f5m", {"priority": 1}, if_match=3)
                assert stub.requests[0].headers["if-match"] == '"3"'

    asyncio.run(main())


def test_whichever_node_is_asked_has_what_was_written_before() -> None:
    async def main() -> None:
        written = {"Raftsched-Index": "17"}
        with (
            serve(script((201, MADE), (0, None)), headers=written) as one,
            serve(script((200, MADE_JOB)), headers={"Raftsched-Index": "3"}) as two,
        ):
            async with client(one.url, two.url) as c:
                made = await c.jobs.create(JOB)
                assert (await c.jobs.get(made)).id == made.id
                await c.jobs.get(made)
        assert [r.path.partition("?")[2] for r in two.requests] == ["min_index=17"] * 2

    asyncio.run(main())


@pytest.mark.parametrize("raw", [(404, b"<html>"), (404, b"page not found"), (501, b""), (200, b"hello")])
def test_who_is_no_node_is_named_at_once(raw: Reply) -> None:
    async def main(url: str) -> None:
        async with client(url) as found:
            with pytest.raises(
                raftsched.NotRaftschedError, match=r"is not raftsched \(answers as BaseHTTP/"
            ) as refused:
                await found.jobs.get("default/x")
            assert url in refused.value.detail

    with serve(lambda request: raw) as stub:
        asyncio.run(main(stub.url))
        assert len(stub.requests) == 1


def test_who_speaks_no_http_is_no_node() -> None:
    async def main() -> None:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"\x15\x03\x01\x00\x02\x02\x46\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, client(f"http://127.0.0.1:{port}") as found:
            with pytest.raises(raftsched.NotRaftschedError, match="does not speak HTTP"):
                await found.jobs.get("default/x")

    asyncio.run(main())


def test_a_node_is_asked_where_another_address_is_somebody_else_s() -> None:
    with serve(lambda request: (404, b"<html>")) as other, serve(script((200, {"number": 1}))) as node:

        async def main() -> None:
            async with client(other.url, node.url) as found:
                await found.transport.send("GET", "/v1/x")

        asyncio.run(main())
        assert (len(other.requests), len(node.requests)) == (1, 1)


def test_a_proxy_that_reaches_no_node_is_asked_again() -> None:
    """Its page is no answer of a node, and none that says that there is no node."""
    with serve(script((502, b"<html>Bad Gateway"), (200, {}))) as stub:

        async def main() -> None:
            async with client(stub.url) as found:
                with pytest.raises(raftsched.UnavailableError, match=r"is it a proxy's\?") as refused:
                    await found.transport.send("POST", "/v1/x", body=b"{}")
                assert refused.value.status == 502

        asyncio.run(main())


@pytest.mark.parametrize("way", ["argument", "variable"])
def test_a_token_that_is_replaced_in_its_file_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Sooner than anybody looks: the first was refused. What is refused with the newest, too, is refused."""
    file = tmp_path / "token"
    file.write_text("old\n")
    good = ["old"]

    def answer(request: Request) -> Reply:
        if request.headers["authorization"] != f"Bearer {good[0]}":
            return problem(401, "unauthorized", "No such token.")
        return 200, {}

    async def main(url: str) -> None:
        more: dict[str, Any] = {"token_file": file} if way == "argument" else {}
        async with raftsched.AsyncClient(url, discover=False, **more) as found:
            await found.transport.send("GET", "/v1/x")
            good[0] = "new"
            file.write_text("new\n")
            await found.transport.send("POST", "/v1/x", body=b"{}")
            good[0] = "newer"
            with pytest.raises(raftsched.AuthError):
                await found.transport.send("GET", "/v1/x")
            file.write_text("")
            with pytest.raises(raftsched.AuthError):
                await found.transport.send("GET", "/v1/x")

    if way == "variable":
        monkeypatch.setenv("RAFTSCHED_TOKEN_FILE", str(file))
    with serve(answer) as stub:
        asyncio.run(main(stub.url))
        shown = [request.headers["authorization"].removeprefix("Bearer ") for request in stub.requests]
        assert shown == ["old", "old", "new", "new", "new"]


def test_a_file_without_a_token_is_said_before_anything_is_sent(tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"missing cannot be read: no such file") as refused:
        raftsched.AsyncClient("http://127.0.0.1:1", token_file=tmp_path / "missing")
    assert (refused.value.code, refused.value.exit) == ("no-token", Exit.AUTH)
