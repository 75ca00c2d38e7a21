"""Crontabs by the API: a report line by line, whose jobs can be created, and no more work than is bounded."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftsched.api.http import slices
from raftsched.api.jobs.crontabs import LINES_MAX, TEXT_MAX
from tests.support.crontab_lines import DIRECTORY
from tests.support.local_api import Client
from tests.support.tokens import As, guarded, limited, make

PATH = "/v1/schedules/crontab"
TEXT = """# nightly
SHELL=/bin/bash
MAILTO=ops@example.com

0 2 * * * /usr/bin/backup --all
@reboot echo up
30 9 * * MON-FRI cat%one%two
61 * * * * never
CRON_TZ=Asia/Tokyo
@daily report
"""


async def test_each_line_is_told_and_the_jobs_can_be_made(call: Client) -> None:
    index = call.cluster.store.applied_index
    body = {"text": TEXT, "timezone": "Europe/Madrid", "namespace": "web", "prefix": "w-"}
    status, found = await call("POST", PATH, body)
    assert (status, found["user_column"]) == (200, False)
    lines = {line["line"]: line for line in found["lines"]}
    assert {number: line["result"] for number, line in lines.items()} == {
        2: "setting", 3: "setting", 5: "job", 6: "refused", 7: "job", 8: "refused", 9: "setting", 10: "job",
    }  # fmt: skip
    assert "nothing is mailed" in lines[3]["notes"][0]
    assert "unescaped %" in lines[7]["notes"][0]
    assert "@reboot" in lines[6]["reason"]
    assert lines[5]["text"] == "0 2 * * * /usr/bin/backup --all"
    assert lines[5]["description"] == "at 02:00 every day, Europe/Madrid time"
    assert lines[10]["job"]["trigger"] == {"cron": "0 0 * * *", "timezone": "Asia/Tokyo"}
    assert lines[6]["job"] is None
    assert call.cluster.store.applied_index == index
    jobs = [line["job"] for line in found["lines"] if line["job"]]
    assert all(job["namespace"] == "web" and job["name"].startswith("w-crontab-") for job in jobs)
    _, made = await call("POST", "/v1/jobs:batch", jobs)
    assert [item["status"] for item in made["items"]] == [201, 201, 201]
    assert (await call("POST", PATH, body))[1] == found, "the same names again"


async def test_texts_speak_of_fields_and_not_of_options(call: Client) -> None:
    _, found = await call("POST", PATH, {"text": "0 2 * * * /run it\n", "user_column": True})
    assert '"user_column": false' in found["lines"][0]["reason"]
    _, found = await call("POST", PATH, {"text": "0 2 * * * root run\n", "user_column": False})
    assert found["lines"][0]["job"]["handler"]["shell"] == "root run"
    for text in ("0 2 * * * 1 run\n", "TZ=Asia/Tokyo\n0 1 * * * root x\n0 2 * * * run\n"):
        _, found = await call("POST", PATH, {"text": text})
        assert "--" not in str(found)


async def test_real_crontabs_become_jobs_that_are_taken(call: Client) -> None:
    taken = 0
    for file in sorted(DIRECTORY.glob("*.crontab")):
        text = file.read_bytes().decode("utf-8", "replace")
        status, found = await call("POST", PATH, {"text": text, "file": file.name})
        assert status == 200
        jobs = [line["job"] for line in found["lines"] if line["job"]]
        if jobs:
            _, made = await call("POST", "/v1/jobs:batch", jobs)
            assert {item["status"] for item in made["items"]} <= {200, 201}
        taken += len(jobs)
    assert taken > 100


async def test_what_a_create_would_refuse_is_refused_here(call: Client) -> None:
    assert (await call("PUT", "/v1/namespaces/web", {"defaults": {"timeout": "10m"}}))[0] == 201
    assert (await call("PATCH", "/v1/cluster/settings", {"timeout_ceiling": "5m"}))[0] == 200
    call.cluster.clock.forward(2_000)
    _, found = await call("POST", PATH, {"text": "0 2 * * * run\n", "namespace": "web"})
    (line,) = found["lines"]
    assert (line["result"], line["job"]) == ("refused", None)
    assert "/timeout" in line["reason"]


@pytest.mark.parametrize(
    ("more", "pointer", "detail"),
    [
        ({"text": None}, "/text", "missing"),
        ({"text": "#" * (TEXT_MAX + 1)}, "/text", "131,072"),
        ({"text": "0 2 * * * x\n" * (LINES_MAX + 1)}, "/text", "2,000"),
        ({"text": "A=1\n" * 201 + "0 2 * * * x\n"}, "/text", "200 variables"),
        ({"text": "A=" + "x" * 50_000 + "\n" + "0 2 * * * x\n" * 100}, "/text", "4,194,304"),
        ({"timezone": "Mars/Olympus"}, "/timezone", "no time zone"),
        ({"prefix": "Web"}, "/prefix", "30"),
        ({"file": ""}, "/file", "200"),
        ({"namespace": "Web"}, "/namespace", "rule for namespaces"),
        ({"user_column": "yes"}, "/user_column", "true or false"),
    ],
)
async def test_what_is_wrong_is_named(call: Client, more: dict[str, Any], pointer: str, detail: str) -> None:
    status, problem = await call("POST", PATH, {"text": "0 2 * * * x\n", **more})
    assert (status, [error["pointer"] for error in problem["errors"]]) == (422, [pointer])
    assert detail in problem["errors"][0]["detail"]


async def test_odd_texts_are_answered(call: Client) -> None:
    for text in ("", "\0", "\ufeff0 2 * * * x", "\r\n\r\n", "a\u2028b\n", "%", "@every 1s x"):
        assert (await call("POST", PATH, {"text": text}))[0] in (200, 400, 422)


async def test_who_may_not_create_there_may_not_convert(call: Client) -> None:
    people = await guarded(call)
    mine = await limited(people["admin"], "mine", "editor", "mine")
    viewer = As(call, await make(people["admin"], "looks", "viewer"))
    body = {"text": "0 2 * * * x\n"}
    assert (await viewer("POST", PATH, body))[0] == 403
    assert (await mine("POST", PATH, body))[0] == 403
    assert (await mine("POST", PATH, {**body, "namespace": "mine"}))[0] == 200


async def test_other_requests_have_their_turn(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    assert (await call("POST", PATH, {"text": "0 2 * * * x\n" * LINES_MAX}))[0] == 200
    counting.cancel()
    assert turns >= 2 * LINES_MAX  # while it is read, and while its jobs are checked
