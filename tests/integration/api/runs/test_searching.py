"""Search in outputs: on all nodes, a part at a time, and only where the caller may read."""

from __future__ import annotations

from typing import Any

import pytest

from raftsched.api.runs import searching
from raftsched.core.commands import Assign, Ended, Started
from raftsched.core.ids import parse_instance
from raftsched.core.model import Outcome
from raftsched.output.format.spool import STDERR, STDOUT, pack
from raftsched.output.keeping.store import Record
from tests.integration.api.runs.test_output_copies import NODES, copy, lose
from tests.support.local_api import Client

pytestmark = pytest.mark.usefixtures("copied")

PATH = "/v1/instances:search"
JOB = {"trigger": {"manual": True}, "handler": {"exec": ["true"]}, "overlap": "allow"}


async def ran(call: Client, node: str, text: str, namespace: str = "default", name: str = "a") -> str:
    """(id of an instance that ran on this node and printed this)"""
    cluster = call.cluster
    await call("PUT", f"/v1/namespaces/{namespace}/jobs/{name}", JOB)
    cluster.clock.forward(1_000)
    status, made = await call("POST", f"/v1/namespaces/{namespace}/jobs/{name}/run")
    assert status == 202, made
    key = parse_instance(made["id"])
    assert key is not None
    (answer,) = cluster.apply(Assign(key, cluster.sessions[node]))
    token, now = getattr(answer, "number", 0), cluster.clock.wall
    cluster.apply(Started(cluster.sessions[node], token, now))
    (ref,) = cluster.outputs[node].append([Record(token, now, pack(STDOUT, text.encode()) + pack(STDERR, b"end\n"))])
    cluster.apply(Ended(cluster.sessions[node], token, Outcome.SUCCEEDED, now, now, 0, output=ref))
    return str(made["id"])


async def found(call: Client, query: str) -> dict[str, Any]:
    status, answer = await call("GET", f"{PATH}?{query}")
    assert status == 200, answer
    return dict(answer)


def ids(answer: dict[str, Any]) -> list[str]:
    return [item["instance_id"] for item in answer["items"]]


async def test_each_node_searches_what_it_has(nodes: list[Client]) -> None:
    runs = [await ran(nodes[0], node, f"one\nneedle of {node}\n") for node in NODES]
    await ran(nodes[0], "n2", "hay\n")
    for call in nodes:
        answer = await found(call, "q=needle")
        assert ids(answer) == runs[::-1], "the newest comes first"
        assert (answer["next"], answer["silent"], answer["outputs"]) == (None, [], 4)
        item = answer["items"][0]
        assert (item["node"], item["namespace"], item["job_name"], item["attempt"]) == ("n3", "default", "a", 1)
        assert item["lines"] == [{"line": 2, "offset": 4, "text": "needle of n3"}]
        assert ids(await found(call, "q=NEEDLE")) == []
        assert ids(await found(call, "q=NEEDLE&ignore_case=true")) == runs[::-1]
        assert ids(await found(call, "q=needle&stream=stderr")) == []
        assert len(ids(await found(call, "q=end&stream=stderr"))) == 4
    for wrong in ("", "q=", "q=" + "x" * 1_001, "q=a%0Ab", "q=x&stream=both", "q=x&ignore_case=1", "q=x&cursor=x"):
        assert (await nodes[0]("GET", f"{PATH}?{wrong}"))[0] == 400, wrong


async def test_by_job_namespace_and_time(first: Client, second: Client) -> None:
    one = await ran(first, "n1", "needle", "billing", "one")
    two = await ran(first, "n2", "needle", "billing", "two")
    at = (await first("GET", f"/v1/instances/{two}"))[1]["scheduled_at"]
    three = await ran(first, "n3", "needle", "other", "three")
    assert ids(await found(second, "q=needle&namespace=billing")) == [two, one]
    assert ids(await found(second, "q=needle&job=billing/one")) == [one]
    assert ids(await found(second, "q=needle&namespace=billing&job=two")) == [two]
    assert ids(await found(second, f"q=needle&from={at}")) == [three, two]
    assert ids(await found(second, f"q=needle&to={at}")) == [one]
    assert (await second("GET", f"{PATH}?q=needle&job=billing/none"))[0] == 404


async def test_it_goes_on_where_it_stopped(first: Client, second: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [await ran(first, NODES[n % 3], f"needle {n}\n") for n in range(9)][::-1]

    async def all_of(query: str) -> tuple[list[str], int]:
        seen, answers, cursor = [], 0, ""
        while True:
            answer = await found(second, f"q=needle&{query}{cursor}")
            seen, answers = seen + ids(answer), answers + 1
            if answer["next"] is None:
                return seen, answers
            cursor = f"&cursor={answer['next']}"

    assert await all_of("limit=2") == (runs, 5)
    monkeypatch.setattr(searching, "OUTPUTS_MAX", 4)
    assert await all_of("") == (runs, 3)
    monkeypatch.setattr(searching, "BYTES_MAX", 1)
    assert await all_of("") == (runs, 9)
    monkeypatch.undo()
    monkeypatch.setattr(searching, "TIME_S", 0.0)
    seen, answers = await all_of("")
    assert (seen, answers) == (runs, 3), "each node reads one output at least"
    status, problem = await second("GET", f"{PATH}?q=other&cursor={(await found(second, 'q=needle&limit=1'))['next']}")
    assert (status, problem["code"]) == (400, "invalid-parameter")


async def test_what_ends_meanwhile_hides_nothing(
    first: Client, second: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that is asked sees more than the one that asks it: what it has looked at may be enough for one answer."""
    runs = [await ran(first, "n1", f"needle {n}\n") for n in range(3)][::-1]
    monkeypatch.setattr(searching, "BYTES_MAX", 20)
    ask = searching._Search._ask
    late: list[str] = []

    async def later(search: searching._Search, *asked: Any) -> searching._Part:
        if not late:
            late.append(await ran(first, "n2", "something that is large\n"))
        return await ask(search, *asked)

    monkeypatch.setattr(searching._Search, "_ask", later)
    answer = await found(second, "q=needle")
    seen = ids(answer)
    while answer["next"] is not None:
        answer = await found(second, f"q=needle&cursor={answer['next']}")
        seen += ids(answer)
    assert seen == runs


@pytest.mark.parametrize("query", ["q=needle", "q=needle&job=default/a"])
async def test_an_answer_that_came_to_nothing_goes_on_at_the_same_place(
    first: Client, second: Client, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    runs = [await ran(first, "n1", f"needle {n}\n") for n in range(3)][::-1]
    ask = searching._Search._ask

    async def none(search: searching._Search, *asked: Any) -> searching._Part:
        return searching._Part([], "ff" * 16, 0, 0)

    for passed in (0, 1):
        cursor = f"&cursor={(await found(second, f'{query}&limit=1'))['next']}" if passed else ""
        monkeypatch.setattr(searching._Search, "_ask", none)
        answer = await found(second, f"{query}{cursor}")
        assert ids(answer) == []
        monkeypatch.setattr(searching._Search, "_ask", ask)
        answer = await found(second, f"{query}&cursor={answer['next']}")
        assert (ids(answer), answer["next"]) == (runs[passed:], None)


async def test_many_lines_of_one_output(first: Client) -> None:
    await ran(first, "n2", "needle\n" * 11)
    (item,) = (await found(first, "q=needle"))["items"]
    assert (len(item["lines"]), item["more"]) == (10, True)


async def test_a_node_that_does_not_answer_is_named(first: Client, second: Client, third: Client) -> None:
    one, two = await ran(first, "n1", "needle"), await ran(first, "n2", "needle")
    first.cluster.open_session("n1", "127.0.0.1:1")
    answer = await found(second, "q=needle")
    assert ids(answer) == [two]
    assert answer["silent"] == [{"node": "n1", "outputs": 1, "detail": "Node n1 does not answer."}]
    await copy(first)
    answer = await found(second, "q=needle")
    assert (ids(answer), answer["silent"]) == ([two, one], []), "its second copy is searched"
    assert ids(await found(third, "q=needle")) == [two, one]


async def test_what_a_node_lost_that_answers_is_searched_in_its_second_copy(nodes: list[Client], first: Client) -> None:
    gone = await ran(first, "n1", "needle, and no copy of it")
    lose(first.cluster)
    lost = [await ran(first, "n1", f"needle {n}") for n in range(2)][::-1]
    await copy(first)
    lose(first.cluster)
    kept = await ran(first, "n1", "needle")
    for call in nodes:
        answer = await found(call, "q=needle")
        assert (ids(answer), answer["outputs"], answer["silent"]) == ([kept, *lost], 3, [])
        assert (await call("GET", f"/v1/instances/{gone}/output"))[0] == 410
    first.cluster.clock.forward(8 * 24 * 3_600_000)
    assert ids(await found(nodes[1], "q=needle")) == [kept], "no copies are looked for of what is not kept any more"


async def test_who_may_not_read_finds_nothing(first: Client, second: Client) -> None:
    mine = await ran(first, "n2", "needle", "mine")
    await ran(first, "n2", "needle", "theirs")
    _, admin = await first("POST", "/v1/tokens", {"name": "boss", "role": "admin"})
    _, made = await first("POST", "/v1/tokens", {"name": "me", "role": "viewer", "namespaces": ["mine"]})
    as_admin, as_me = ({"Authorization": f"Bearer {one['secret']}"} for one in (admin, made))
    assert (await first("PUT", "/v1/cluster/access", {"required": True}, as_admin))[0] == 200
    for call in (first, second):
        assert (await call("GET", f"{PATH}?q=needle"))[0] == 401
        assert (await call("GET", f"{PATH}?q=needle", None, as_me))[0] == 403, "a namespace is to be named"
        assert (await call("GET", f"{PATH}?q=needle&namespace=theirs", None, as_me))[0] == 403
        status, answer = await call("GET", f"{PATH}?q=needle&namespace=mine", None, as_me)
        assert (status, ids(answer), answer["outputs"]) == (200, [mine], 1)
        assert (await call("GET", f"{PATH}?q=needle&job=theirs/a", None, as_me))[0] == 404


async def test_so_many_searches_wait_at_a_node(first: Client, second: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await ran(first, "n1", "needle")
    monkeypatch.setattr(searching, "WAITING_MAX", 0)
    status, problem = await first("GET", f"{PATH}?q=needle")
    assert (status, problem["code"]) == (429, "too-many")
    assert (await found(second, "q=needle"))["silent"][0]["detail"] == "Node n1 answers 429."


async def test_nobody_else_says_which_instances_are_meant(first: Client) -> None:
    run = await ran(first, "n1", "needle")
    said = {"Raftsched-Hop": "n2", searching.RANGE: "-00 n2"}
    status, answer = await first("GET", f"{PATH}?q=needle", None, said)
    assert (status, ids(answer)) == (200, [run])
