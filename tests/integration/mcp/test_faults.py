"""raftsched mcp: a cluster that is away, a leader that goes, and many calls at a time."""

from __future__ import annotations

import asyncio

from mcp import types

import raftsched
from raftsched.cli.mcp.serving import CALLS_MAX, WAITING_MAX, Tools
from raftsched.cli.mcp.tools import Arguments, tool
from raftsched.surface import jobs
from raftsched.testing import cluster
from tests.integration.mcp.desk import desk
from tests.support.patience import patient, until


def test_a_leader_goes_and_then_all_of_it() -> None:
    async def main() -> None:
        async with cluster(3) as nodes, desk(nodes.servers, allow_writes=True, timeout=patient(20)) as one:
            spec = {"name": "stays", "trigger": {"manual": True}, "handler": {"shell": ":"}}
            assert (await one("create_job", job=spec))["created"]
            leader = await nodes.leader()
            going = asyncio.create_task(leader.stop())
            for number in range(6):  # while the others find a new one
                assert (await one("edit_job", job="stays", changes={"priority": number}))["name"] == "stays"
                assert (await one("list_jobs"))["items"][0]["name"] == "stays"
            await going
            assert (await one("list_nodes"))["leader"] not in (None, leader.id)

            one.cluster.transport.timeout = 0.5
            await asyncio.gather(*(node.stop() for node in nodes if node.running))
            for name, given in (("list_jobs", {}), ("run_job", {"job": "stays"}), ("check_cluster", {})):
                said = await one.refused(name, **given)
                # The second one where a connection that was open broke under the request.
                assert said.startswith(("unreachable: No node answered", "unknown-outcome: ")), said
            assert "run_job" in await one.names()  # nobody knows the role; the cluster decides

            one.cluster.transport.timeout = patient(20)
            await asyncio.gather(*(nodes.start(node) for node in nodes))
            await nodes.ready()
            assert (await one("get_job", job="stays"))["priority"] == 5

    asyncio.run(main())


class Held(Arguments):
    number: int = 0


def test_a_few_calls_are_made_at_a_time_and_a_few_more_wait() -> None:
    """Needs no cluster: the tool waits for the test."""
    now: list[int] = []
    go = asyncio.Event()

    @tool(jobs.LIST, title="Wait")
    async def held(client: raftsched.AsyncClient, given: Held) -> int:
        """Waits."""
        now.append(given.number)
        await go.wait()
        return given.number

    async def main() -> None:
        async with raftsched.AsyncClient("http://127.0.0.1:1") as client:
            tools = Tools(client)
            tools._allowed[held.name] = held
            asked = [types.CallToolRequestParams(name="held", arguments={"number": n}) for n in range(50)]
            calls = [asyncio.create_task(tools._call(None, one)) for one in asked]
            many = len(asked) - CALLS_MAX - WAITING_MAX
            await until(lambda: sum(call.done() for call in calls) == many, "the calls that are too many")
            assert len(now) == CALLS_MAX
            go.set()
            answers = await asyncio.gather(*calls)
            assert [answer.is_error for answer in answers].count(True) == many
            assert "call again later" in str(next(answer.content for answer in answers if answer.is_error))
            assert len(now) == CALLS_MAX + WAITING_MAX

    asyncio.run(main())


def test_a_fault_of_a_tool_is_an_answer_without_its_words() -> None:
    @tool(jobs.LIST, title="Fail")
    async def fails(client: raftsched.AsyncClient, given: Held) -> int:
        """Fails."""
        raise TypeError("with words that are nobody's business")

    async def main() -> None:
        async with raftsched.AsyncClient("http://127.0.0.1:1") as client:
            tools = Tools(client)
            tools._allowed[fails.name] = fails
            answer = await tools._call(None, types.CallToolRequestParams(name="get_job", arguments={"job": "\ud800"}))
            assert "surrogates not allowed" in str(answer.content)  # the SDK's own client does not send it
            answer = await tools._call(None, types.CallToolRequestParams(name="fails"))
            assert answer.is_error
            assert answer.content[0].text == "internal: TypeError; the log of this server says more"  # type: ignore[union-attr]

    asyncio.run(main())
