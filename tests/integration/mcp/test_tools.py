"""raftsched mcp: each tool on a real cluster, asked by the SDK's own client."""

from __future__ import annotations

import re
from typing import Any

from raftsched.cli.mcp.reads import CAUSES_OF, OUTPUT_MAX, READS
from raftsched.cli.mcp.serving import ALL
from raftsched.cli.mcp.writes import WRITES
from raftsched.testing import RunningCluster
from tests.integration.mcp.desk import Desk, at_desk
from tests.support.patience import patient

MANUAL: Any = {"manual": True}


async def made(desk: Desk, name: str, shell: str, **more: Any) -> str:
    """The id of a run of this job that has ended."""
    spec: Any = {"name": name, "trigger": MANUAL, "handler": {"shell": shell}, **more}
    job = await desk.cluster.jobs.create(spec)
    run = await desk.cluster.jobs.run(job)
    await desk.cluster.instances.wait(run, timeout=patient(60))
    return run.id


def test_without_a_word_nothing_can_be_changed(cluster: RunningCluster) -> None:
    async def work(desk: Desk) -> None:
        assert await desk.names() == {tool.name for tool in READS}
        for tool in (await desk.client.list_tools()).tools:
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert not tool.annotations.destructive_hint
        for write in WRITES:
            assert "--allow-writes" in await desk.refused(write.name)

    at_desk(cluster, work)


def test_what_clients_are_told_of_a_tool(cluster: RunningCluster) -> None:
    async def work(desk: Desk) -> None:
        found = (await desk.client.list_tools()).tools
        assert [tool.name for tool in found] == list(ALL)
        for tool in found:
            schema, hints = tool.input_schema, tool.annotations
            assert schema["type"] == "object"
            assert schema["additionalProperties"] is False
            assert (tool.description or "").endswith(".")
            assert hints is not None
            assert hints.read_only_hint == (ALL[tool.name] in READS)
            assert hints.destructive_hint == (tool.name in ("edit_job", "delete_job", "kill_run"))

    at_desk(cluster, work, allow_writes=True)


def test_looking(cluster: RunningCluster) -> None:
    async def work(desk: Desk) -> None:
        good = await made(desk, "looks", "echo seen; echo wrong >&2", namespace="look", owner="ana")
        bad = await made(desk, "fails", "echo broken >&2; exit 3", namespace="look")
        asked: dict[str, Any] = {
            "list_jobs": await desk("list_jobs", namespace="look", owner="ana"),
            "get_job": await desk("get_job", job="look/looks"),
            "explain_job": await desk("explain_job", job="look/looks"),
            "list_runs": await desk("list_runs", job="look/fails", state="FAILED"),
            "get_run": await desk("get_run", run=bad),
            "explain_run": await desk("explain_run", run=bad),
            "read_output": await desk("read_output", job="look/looks", stream="stderr"),
            "search_output": await desk("search_output", text="broken", namespace="look"),
            "list_dead_letters": await desk("list_dead_letters", namespace="look"),
            "dead_letter_causes": await desk("dead_letter_causes", job="look/fails"),
            "forecast_runs": await desk("forecast_runs", **{"for": "2h"}),
            "check_cluster": await desk("check_cluster", all=True),
            "list_nodes": await desk("list_nodes"),
            "who_am_i": await desk("who_am_i"),
        }
        assert list(asked) == [tool.name for tool in READS]
        (job,) = asked["list_jobs"]["items"]
        assert (job["name"], job["owner"], asked["list_jobs"]["next"]) == ("looks", "ana", None)
        assert asked["get_job"]["handler"] == {"shell": "echo seen; echo wrong >&2"}
        assert await desk("get_job", job=job["id"]) == asked["get_job"]
        assert "by hand" in asked["explain_job"]["text"]
        assert [run["id"] for run in asked["list_runs"]["items"]] == [bad]
        assert asked["get_run"]["exit_code"] == 3
        assert "FAILED" in asked["explain_run"]["text"]
        assert (asked["read_output"]["run"], asked["read_output"]["bytes"]) == (good, len("wrong\n"))
        assert asked["search_output"]["items"][0]["lines"][0]["text"] == "broken"
        assert [one["id"] for one in asked["list_dead_letters"]["items"]] == [bad]
        (cause,) = asked["dead_letter_causes"]["causes"]
        assert (cause["job"], cause["count"], cause["runs"], cause["exit_code"]) == ("look/fails", 1, [bad], 3)
        assert asked["forecast_runs"]["step"] == "1h"
        assert {one["check"] for one in asked["check_cluster"]["findings"]} >= {"leader", "quorum"}
        assert [(node["id"], node["alive"]) for node in asked["list_nodes"]["items"]] == [("n1", True)]
        assert asked["list_nodes"]["leader"] == "n1"
        assert asked["who_am_i"]["role"] == "admin"  # a cluster that is open to this machine

    at_desk(cluster, work)


def test_changing(cluster: RunningCluster) -> None:
    async def work(desk: Desk) -> None:
        spec = {"name": "made", "namespace": "change", "trigger": {"every": "1h"}, "handler": {"shell": "exit 1"}}
        assert (await desk("create_job", job=spec, dry_run=True))["result"] == "created"
        assert (await desk("list_jobs", namespace="change"))["items"] == []
        assert (await desk("create_job", job=spec))["created"]
        assert "name-taken" in await desk.refused("create_job", job={**spec, "priority": 1})

        would = await desk("edit_job", job="change/made", changes={"priority": 9}, dry_run=True)
        assert (would["result"], (await desk("get_job", job="change/made"))["priority"]) == ("changed", 5)
        edited = await desk("edit_job", job="change/made", changes={"priority": 9}, revision=1)
        assert (edited["revision"], (await desk("get_job", job="change/made"))["priority"]) == (2, 9)
        assert "revision 2, not 1" in await desk.refused("edit_job", job="change/made", changes={}, revision=1)
        assert "revision 2, not 1" in await desk.refused("delete_job", job="change/made", revision=1)

        assert (await desk("pause_job", job="change/made", **{"for": "1h"}))["state"] == "SUSPENDED"
        assert (await desk("resume_job", job="change/made"))["state"] == "SCHEDULED"
        run = (await desk("run_job", job="change/made", params={"a": 1}))["run"]
        await desk.cluster.instances.wait(run, timeout=patient(60))
        assert (await desk("get_run", run=run))["params"] == {"a": 1}
        assert await desk("retry_dead_letters", runs=[run]) == {"requeued": 1, "refused": []}
        await desk.cluster.instances.wait(run, timeout=patient(60))
        (attempts,) = [one["attempt"] for one in (await desk("list_dead_letters", namespace="change"))["items"]]
        assert attempts == 2

        await desk("edit_job", job="change/made", changes={"handler": {"shell": "sleep 60"}})
        run = (await desk("run_job", job="change/made"))["run"]
        assert (await desk("kill_run", run=run))["run"] == run
        assert (await desk.cluster.instances.wait(run, timeout=patient(60))).state == "KILLED"
        assert (await desk("delete_job", job="change/made", revision=3))["state"] == "deleted"
        assert "not-found" in await desk.refused("get_job", job="change/made")

    at_desk(cluster, work, allow_writes=True)


def test_a_mebibyte_of_output_comes_in_parts_that_are_all_of_it(cluster: RunningCluster) -> None:
    async def work(desk: Desk) -> None:
        run = await made(desk, "prints", "seq 1 200000 | head -c 1048576", namespace="big")
        is_error, (said, shown) = await desk.texts("read_output", {"job": "big/prints"})
        assert not is_error
        assert '"bytes_in_both_streams": 1048576' in said
        assert len(shown) < 10_000
        whole = (await desk.cluster.instances.output(run)).decode()
        assert _printed(shown) == whole[-8_192:]

        # The part before it, as the answer says how to get it; and what follows, until there is no more.
        before = re.search(r"offset=(\d+), max_bytes=(\d+)", said)
        assert before is not None
        begin, size = int(before[1]), int(before[2])
        _, (_, shown) = await desk.texts("read_output", {"run": run, "offset": begin, "max_bytes": size})
        assert _printed(shown) == whole[begin : begin + size]
        got, offset = "", 1_048_576 - 40_000
        while True:
            part = {"run": run, "offset": offset, "max_bytes": OUTPUT_MAX}
            _, (said, shown) = await desk.texts("read_output", part)
            got += _printed(shown)
            after = re.search(r"perhaps more: offset=(\d+)", said)
            if after is None:
                break
            offset = int(after[1])
        assert got == whole[-40_000:]
        assert "name `run`" in await desk.refused("read_output")

    at_desk(cluster, work)


def _printed(block: str) -> str:
    found = re.fullmatch(r"[^\n]*\n----- output (\w+) -----\n(.*)\n----- end of output \1 -----", block, re.DOTALL)
    assert found is not None, block[:200]
    return found[2]


def test_lists_go_on_with_their_cursor_also_where_rows_are_large(cluster: RunningCluster) -> None:
    async def work(desk: Desk) -> None:
        labels = {f"label-{number}": "x" * 250 for number in range(8)}
        spec: Any = {"namespace": "rows", "trigger": MANUAL, "handler": {"shell": ":"}, "labels": labels}
        specs: Any = [{**spec, "name": f"row-{number}"} for number in range(30)]
        await desk.cluster.jobs.create_many(specs)
        names: list[str] = []
        page = await desk("list_jobs", namespace="rows", limit=100)
        while True:
            names += [job["name"] for job in page["items"]]
            if page["next"] is None:
                break
            assert "more" in page
            page = await desk("list_jobs", namespace="rows", limit=100, cursor=page["next"])
        assert sorted(names) == sorted(f"row-{number}" for number in range(30))
        assert CAUSES_OF == 1_000

    at_desk(cluster, work)


def test_what_looks_like_a_secret_is_not_shown_and_does_not_come_back(cluster: RunningCluster) -> None:
    async def work(desk: Desk) -> None:
        handler: Any = {"shell": "echo password=hunter2", "env": {"DB_PASSWORD": "hunter2", "PLAIN": "yes"}}
        await desk.cluster.jobs.create(name="keeps", namespace="secret", trigger=MANUAL, handler=handler)
        run = await desk.cluster.jobs.run("secret/keeps")
        await desk.cluster.instances.wait(run, timeout=patient(60))
        job = await desk("get_job", job="secret/keeps")
        assert job["handler"]["env"] == {"DB_PASSWORD": "***", "PLAIN": "yes"}
        _, (_, printed) = await desk.texts("read_output", {"run": run.id})
        assert "password=***" in printed
        for part in ({"offset": 9, "max_bytes": 7}, {"offset": 9}, {"max_bytes": 8}):  # without its name
            _, (_, printed) = await desk.texts("read_output", {"run": run.id, **part})
            assert "***" in printed
            assert "hunter2" not in printed
        for tool in ("list_runs", "explain_job"):
            assert "hunter2" not in str(await desk(tool, job="secret/keeps"))
        said = await desk.refused("edit_job", job="secret/keeps", changes={"handler": job["handler"]})
        assert "changes/handler/" in said
        assert (await desk.cluster.jobs.get("secret/keeps")).revision == 1

    at_desk(cluster, work, allow_writes=True)
