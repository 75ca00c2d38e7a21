"""Requests that are generated from the API's description: one that is as the description says is refused for what it
means alone, one that is not is never said to be."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from raftsched.errors import MALFORMED, is_of_meaning
from tests.support import api_formats
from tests.support.amounts import TESTS
from tests.support.documented import document, is_allowed
from tests.support.local_api import Client, LocalCluster, serving

pytestmark = pytest.mark.slow

JSON = "application/json"
LEFT_OUT = {
    "members_add", "members_remove", "members_transfer",  # of one node
    "output_copies_put",  # of bytes of its own
    "tokens_put_access",  # nothing else would be allowed
    "snapshot_get",
}  # fmt: skip
TAKES_MORE = {"oidc_put"}  # issuers that are not described: those of this machine, over HTTP
WAITS = frozenset({"min_index", "after", "Last-Event-ID"})  # for an index: nothing comes by itself here
NO_FAULTS = frozenset({"behind", "output-unavailable", "stopping", "no-leader"})  # of the node, and no other runs here
EXAMPLES = 15  # of each operation, and
BROKEN = 8  # times each body that was taken is broken
WRONG = [None, True, -1, 2**70, 1.5, "", "\0", "A B", "x" * 5_000, [], [1], {}, {"x": 1}]


@cache
def operations() -> list[Any]:
    """Returns what is not left out. Who only collects tests does not pay for schemathesis."""
    import schemathesis

    api_formats.register()
    found = [one.ok() for one in schemathesis.openapi.from_dict(document()).get_all_operations()]
    return [one for one in found if _id(one) not in LEFT_OUT]


class Requests:
    """Sends what is generated, most of it about things that there are."""

    def __init__(self, call: Client, chosen: random.Random) -> None:
        self._call = call
        self._random = chosen
        self._known: dict[str, dict[str, str]] = {}

    async def begin(self) -> None:
        """Makes one of each thing."""
        job = {"name": "a", "trigger": {"every": "1h"}, "handler": {"shell": "true"}, "overlap": "queue_all"}
        _, made = await self._call("POST", "/v1/jobs", job)
        _, run = await self._call("POST", f"/v1/jobs/{made['id']}/run", {})
        for path, body in (("queues/q", {}), ("calendars/c", {}), ("webhooks/w", {"url": "http://127.0.0.1:1/"})):
            await self._call("PUT", f"/v1/{path}", body)
        self._known = {
            "/v1/jobs/": {"id": made["id"]},
            "/v1/namespaces/{ns}/jobs/": {"ns": "default", "name": "a"},
            "/v1/instances/": {"id": run["id"]},
            "/v1/nodes/": {"id": "n1"},
            "/v1/namespaces/": {"ns": "default"},
            "/v1/queues/": {"name": "q"},
            "/v1/calendars/": {"name": "c"},
            "/v1/webhooks/": {"name": "w"},
        }

    async def send(self, case: Any, instead: Any = None) -> tuple[int, Any]:
        """Returns what is answered. `instead`: of the body. Nothing is waited for: nothing comes by itself here."""
        path = self._address(case)
        query = {name: value for name, value in (case.query or {}).items() if name not in WAITS}
        headers = {name: str(value) for name, value in case.headers.items() if name not in WAITS}
        if case.media_type is not None:
            headers["Content-Type"] = case.media_type
        if "follow" in {one["name"] for one in case.operation.definition.raw.get("parameters", ())}:
            query["follow"] = "false"
        said = urlencode({k: ",".join(map(str, v)) if isinstance(v, list) else _text(v) for k, v in query.items()})
        body = (
            instead
            if instead is not None
            else case.body
            if isinstance(case.body, dict | list | str | int | float | bytes)
            else None
        )
        return await self._call(case.method.upper(), f"{path}?{said}" if said else path, body, headers)

    def _address(self, case: Any) -> str:
        given = dict(case.path_parameters or {})
        near = max((start for start in self._known if case.path.startswith(start)), key=len, default=None)
        if near is not None and self._random.random() < 0.9:
            given |= {name: value for name, value in self._known[near].items() if name in given}
        path: str = case.path
        for name, value in given.items():
            path = path.replace(f"{{{name}}}", quote(str(value), safe="@"))
        return path


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def problem_of(answer: Any) -> tuple[str, list[str | None]]:
    return answer["code"], [one.get("code") for one in answer.get("errors", ())]


def problems_of(status: int, answer: Any) -> list[Any]:
    """Returns the problem, or those of a batch."""
    if status >= 400:
        return [answer]
    items = answer.get("items", ()) if isinstance(answer, dict) else ()
    return [one for one in items if isinstance(one, dict) and isinstance(one.get("status"), int) and "code" in one]


Run = Callable[[Coroutine[Any, Any, Any]], Any]
Probe = Callable[[Requests, Run, Any], None]


@contextmanager
def local(directory: Path, number: int) -> Iterator[tuple[Requests, Run]]:
    loop = asyncio.new_event_loop()
    cluster = LocalCluster(directory)
    cluster.open_session("n1", "127.0.0.1:1")
    manager = serving(cluster, "n1")
    try:
        requests = Requests(loop.run_until_complete(manager.__aenter__()), random.Random(number))
        try:
            loop.run_until_complete(requests.begin())
            yield requests, loop.run_until_complete
        finally:
            loop.run_until_complete(manager.__aexit__(None, None, None))
    finally:
        cluster.close()
        loop.close()


def chosen(number: int, kind: str, possible: list[Any]) -> list[Any]:
    """Returns the operations of this run: all, or a tenth of them where all tests run. It takes longer to learn how an
    operation's requests are made than to make some more of them."""
    count = len(possible) if not TESTS else max(1, len(possible) // 10)
    return random.Random(f"{number} {kind}").sample(possible, count)


def generate(directory: Path, number: int, operation: Any, probe: Probe) -> None:
    """Each operation has a cluster of its own: another one's settings would have nearly all refused."""
    from schemathesis.generation import GenerationMode

    quiet = settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    with local(directory / _id(operation), number) as (requests, run):

        @seed(number)
        @quiet
        @given(operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
        def each(case: Any) -> None:
            probe(requests, run, case)

        each()


@pytest.fixture
def number() -> int:
    """Another seed each time; it is printed with what fails."""
    found = secrets.randbits(32)
    print(f"seed {found}")
    return found


def test_what_is_as_the_description_says_is_refused_for_what_it_means_alone(tmp_path: Path, number: int) -> None:
    answered = dict.fromkeys((True, False), 0)

    def probe(requests: Requests, run: Run, case: Any) -> None:
        status, answer = run(requests.send(case))
        answered[status < 400] += 1
        said = (case.method, case.path, case.query, case.headers, case.body, status, answer)
        for problem in problems_of(status, answer):
            code, errors = problem_of(problem)
            assert problem["status"] < 500 or code in NO_FAULTS, said
            assert is_of_meaning(code, errors), said

    for operation in chosen(number, "positive", operations()):
        generate(tmp_path, number, operation, probe)
    assert min(answered.values()), f"all were answered alike: {answered}"


def test_what_the_description_refuses_is_not_refused_for_what_it_means(tmp_path: Path, number: int) -> None:
    """Bodies that were taken are broken in one place."""
    refused = 0
    chance = random.Random(number)

    def probe(requests: Requests, run: Run, case: Any) -> None:
        nonlocal refused
        if not isinstance(case.body, dict | list) or run(requests.send(case))[0] >= 400:
            return
        for _ in range(BROKEN):
            body = broken(case.body, chance)
            if is_allowed(case.method, case.path, body):
                continue
            status, answer = run(requests.send(case, body))
            said = (case.method, case.path, body, status, answer)
            assert status < 500 or answer["code"] in NO_FAULTS, said
            if status >= 400 and answer["code"] in MALFORMED:
                refused += 1
                assert not is_of_meaning(*problem_of(answer)), said

    for operation in chosen(number, "negative", [one for one in operations() if _takes_json(one)]):
        generate(tmp_path, number, operation, probe)
    assert refused, "nothing was refused"


def broken(body: Any, chance: random.Random) -> Any:
    """Returns the body with another value in one place, without one of its fields, or with one that is not known."""
    if isinstance(body, dict) and body and chance.random() < 0.9:
        name = chance.choice(sorted(body))
        if chance.random() < 0.1:
            return {key: value for key, value in body.items() if key != name}
        return {**body, name: broken(body[name], chance)}
    if isinstance(body, list) and body and chance.random() < 0.9:
        place = chance.randrange(len(body))
        return [*body[:place], broken(body[place], chance), *body[place + 1 :]]
    if isinstance(body, dict) and chance.random() < 0.5:
        return {**body, "no-such-field": None}
    return chance.choice(WRONG)


def _takes_json(operation: Any) -> bool:
    return _id(operation) not in TAKES_MORE and JSON in operation.definition.raw.get("requestBody", {}).get(
        "content", ()
    )


def _id(operation: Any) -> str:
    name: str = operation.definition.raw["operationId"]
    return name
