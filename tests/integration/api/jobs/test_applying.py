"""`raftsched jobs apply` against the API: what stays as it is costs one request, and who changes what another one is
about to change is not overwritten."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from click.testing import Result

from raftsched.cli.jobs import apply as applying
from raftsched.cli.jobs.comparing import compare_all
from raftsched.cli.jobs.job_files import Wanted
from raftsched.client.http import Answer
from raftsched.client.http import Client as Asking
from raftsched.core.commands import Barrier, decode
from tests.support.local_api import Client
from tests.unit.cli.house import run as command

PRUNE = ("--prune", "--label", "app=shop", "--yes")


def jobs(count: int, **fields: Any) -> list[dict[str, Any]]:
    shared: dict[str, Any] = {"namespace": "shop", "labels": {"app": "shop"}, "handler": {"exec": ["/bin/true"]}}
    trigger = {"cron": "0 2 * * *", "timezone": "Europe/Berlin"}
    return [{"name": f"j{number}", "trigger": trigger, **shared, **fields} for number in range(count)]


async def apply(call: Client, text: Any, *words: str) -> Result:
    given = ("--server", call.url, "jobs", "apply", "-f", "-", *words)
    return await asyncio.to_thread(command, *given, input=json.dumps(text))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What commands ask from now on."""
    found: list[str] = []
    request = Asking.request

    def noted(self: Asking, method: str, path: str, **more: Any) -> Answer:
        found.append(f"{method} {path}")
        return request(self, method, path, **more)

    monkeypatch.setattr(Asking, "request", noted)
    return found


@pytest.mark.slow
async def test_what_stays_as_it_is_costs_one_request_and_no_entry_of_its_own(call: Client, asked: list[str]) -> None:
    first = await apply(call, jobs(500))
    assert (first.exit_code, first.stdout.count("created: ")) == (0, 500)
    done: list[bytes] = []
    raw = call.cluster.apply_raw
    call.cluster.apply_raw = lambda commands: done.extend(commands) or raw(commands)  # type: ignore[method-assign]
    for words in ((), PRUNE):
        asked.clear()
        again = await apply(call, jobs(500), *words)
        assert (again.exit_code, again.stdout.count("unchanged: ")) == (0, 500)
        lists = ["GET /v1/jobs"] if words else []
        assert asked == ["POST /v1/jobs:compare?consistency=leader", *lists]
        assert [type(decode(one)) for one in done] == [Barrier], "of the comparison"
        done.clear()
    asked.clear()
    other = await apply(call, [*jobs(499), *jobs(500, priority=7)[499:]])
    assert (other.exit_code, other.stdout.count("changed: shop/j499"), len(asked)) == (0, 1, 2)


async def test_of_two_appliers_the_later_one_is_told(call: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await apply(call, jobs(4))
    loop = asyncio.get_running_loop()

    async def meanwhile() -> None:
        for name, method, body in (
            ("j0", "PATCH", {"description": "by another"}),
            ("j1", "PATCH", {"description": "second"}),  # as the later one has it
            ("j2", "DELETE", None),
            ("j4", "PUT", {**jobs(1)[0], "name": "j4", "description": "by another"}),
        ):
            assert (await call(method, f"/v1/namespaces/shop/jobs/{name}", body))[0] in (200, 201)

    def raced(client: Asking, found: Sequence[Wanted], *, newest: bool) -> Mapping[str, Any]:
        seen = compare_all(client, found, newest=newest)
        asyncio.run_coroutine_threadsafe(meanwhile(), loop).result(30)
        return seen

    with monkeypatch.context() as patch:
        patch.setattr(applying, "compare_all", raced)
        result = await apply(call, jobs(5, description="second"))
    assert (result.exit_code, result.stdout) == (4, "changed: shop/j1\nchanged: shop/j3\n")
    assert result.stderr.splitlines() == [
        "refused: shop/j0: changed meanwhile by anonymous, it is at revision 2; run again (stdin: item 1)",
        "refused: shop/j2: deleted meanwhile; run again (stdin: item 3)",
        "refused: shop/j4: changed meanwhile by anonymous, it is at revision 1; run again (stdin: item 5)",
    ]
    _, job = await call("GET", "/v1/namespaces/shop/jobs/j0")
    assert job["description"] == "by another"
    again = await apply(call, jobs(5, description="second"))
    assert (again.exit_code, again.stderr) == (0, "")


async def test_what_is_pruned_is_counted_before_and_deleted_as_it_was(call: Client) -> None:
    await apply(call, jobs(6))
    refused = await apply(call, jobs(2, priority=7), *PRUNE)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "would delete 4 of the 6 jobs with the label app=shop" in refused.stderr
    _, job = await call("GET", "/v1/namespaces/shop/jobs/j0")
    assert job["revision"] == 1, "nothing was done"
    renamed = [{**job, "name": f"renamed-{place}"} for place, job in enumerate(jobs(6))]
    assert "would delete 6 of the 6" in (await apply(call, renamed, *PRUNE)).stderr, "those that come do not count"
    half = await apply(call, jobs(3), *PRUNE)
    assert (half.exit_code, half.stdout.count("deleted: ")) == (0, 3)
    none = await apply(call, [], *PRUNE, "--allow-empty", "--prune-max", "100%")
    assert (none.exit_code, none.stdout.count("deleted: ")) == (0, 3)


async def test_a_file_pauses_what_it_changes_and_what_is_paused_stays_so(call: Client) -> None:
    await apply(call, jobs(3))
    await call("POST", "/v1/namespaces/shop/jobs/j1/pause", {})
    paused = [*jobs(2, priority=7), {**jobs(3)[2], "suspended": True}]
    result = await apply(call, paused)
    assert result.stdout == "changed: shop/j0\nchanged: shop/j1\nchanged: shop/j2\n"
    states = [(await call("GET", f"/v1/namespaces/shop/jobs/j{number}"))[1]["state"] for number in range(3)]
    assert states == ["SCHEDULED", "SUSPENDED", "SUSPENDED"]
    assert (await apply(call, paused)).stdout.count("unchanged: ") == 3
