"""Who asks too often is refused at once, and told when to come again."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from raftsched.api.auth.callers import Caller, Rate
from raftsched.api.auth.rates import Buckets, Rates, network_of
from raftsched.api.auth.spending import Spending, charged
from raftsched.api.http.problems import Problem
from raftsched.cluster_settings import Settings
from raftsched.config.bounds import Bounds
from raftsched.core.subjects.access import Role
from tests.support.local_api import Client, one_node, run
from tests.support.tokens import As, guarded, make, unknown

JOB = {"trigger": {"in": "30m"}, "handler": {"exec": ["true"]}}
MERGE = {"Content-Type": "application/merge-patch+json"}
WAYS: list[dict[str, str]] = [{}, {"X-Unknown-To-The-Short-Way": "1"}]


async def settings(admin: Any, **change: int) -> None:
    status, answer = await admin("PATCH", "/v1/cluster/settings", change, MERGE)
    assert status == 200, answer
    admin.call.context.forget_settings()


@pytest.mark.parametrize("way", WAYS, ids=["short", "ordinary"])
async def test_a_token_is_for_so_many_requests(call: Client, way: dict[str, str]) -> None:
    admin = (await guarded(call))["admin"]
    rate = {"rate": {"count": 120, "per": "1m"}, "burst": 5}
    slow = As(call, await make(admin, "slow", "editor", **rate))
    for _ in range(5):
        assert (await slow("POST", "/v1/jobs", JOB, way))[0] == 201
    status, problem = await slow("POST", "/v1/jobs", JOB, way)
    assert (status, problem["code"]) == (429, "rate-limited"), problem
    assert call.headers["Retry-After"] == "1"  # half a second, in whole ones
    assert call.headers["RateLimit-Policy"] == '"token";q=5;w=3'
    assert call.headers["RateLimit"] == '"token";r=0;t=1'
    assert '"slow"' in problem["detail"]
    assert (await slow("GET", "/v1/jobs"))[0] == 429  # one bucket for all that he asks
    assert (await admin("POST", "/v1/jobs", JOB, way))[0] == 201  # which is no one else's
    call.cluster.clock.forward(500)
    assert (await slow("POST", "/v1/jobs", JOB, way))[0] == 201
    assert (await slow("POST", "/v1/jobs", JOB, way))[0] == 429
    _, text = await admin("GET", "/metrics")
    assert 'raftsched_http_rate_limited_total{by="token"} 3.0' in text


@pytest.mark.parametrize(("method", "body", "way"), [("GET", None, {}), *(("POST", JOB, way) for way in WAYS)])
def test_a_token_has_a_share_of_the_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, body: Any, way: dict[str, str]
) -> None:
    now_s, step_s = 0.0, 0.0

    def thread_s() -> float:
        nonlocal now_s
        now_s += step_s
        return now_s

    for module in ("auth.spending", "http.gathering"):
        monkeypatch.setattr(f"raftsched.api.{module}.thread_s", thread_s)

    async def test(call: Client) -> None:
        nonlocal step_s
        people = await guarded(call)
        admin, editor = people["admin"], people["editor"]
        step_s = 0.0001
        for _ in range(5):
            assert (await editor(method, "/v1/jobs", body, way))[0] in (200, 201)
        assert not len(call.context.rates._processor), "what takes little is free"
        step_s = 6.0
        assert (await editor(method, "/v1/jobs", body, way))[0] in (200, 201)
        status, problem = await editor(method, "/v1/jobs", body, way)
        assert (status, problem["code"]) == (429, "rate-limited"), problem
        assert "500 ms of this node's processor time a second" in problem["detail"]
        wait_s = int(call.headers["Retry-After"])
        assert wait_s >= 2
        assert call.headers["RateLimit-Policy"] == '"processor";q=5000;w=10'
        assert (await admin("GET", "/v1/whoami"))[0] == 200, "no one else's"
        call.cluster.clock.forward(wait_s * 1_000)
        assert (await editor(method, "/v1/jobs", body, way))[0] in (200, 201)
        step_s = 0.0
        call.cluster.clock.forward(100_000)
        _, text = await admin("GET", "/metrics")
        assert 'raftsched_http_rate_limited_total{by="processor"} 1.0' in text

    run(tmp_path, test)


@pytest.mark.parametrize("bounds", [Bounds(token_processor_ms=0), Bounds()])
async def test_nobody_is_charged_without_a_share_or_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bounds: Bounds
) -> None:
    async with one_node(tmp_path, bounds) as call:
        monkeypatch.setattr("raftsched.api.auth.spending.thread_s", count(step=60).__next__)
        asks = call if bounds.token_processor_ms else (await guarded(call))["viewer"]
        for _ in range(3):
            assert (await asks("GET", "/v1/jobs"))[0] == 200


def test_errors_and_values_go_through_what_is_charged() -> None:
    asyncio.run(_go_through())


class Spent(Spending):
    def __init__(self) -> None:
        self.steps: list[float] = []

    def add(self, seconds: float) -> None:
        self.steps.append(seconds)


async def _go_through() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return 7
        return 0

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("so")

    async def waits() -> None:
        await asyncio.Event().wait()

    spent = Spent()
    assert await charged(work(), spent) == 7
    assert len(spent.steps) >= 3
    with pytest.raises(ValueError, match="so"):
        await charged(fails(), spent)

    async def charged_wait() -> None:
        await charged(waits(), spent)

    task = asyncio.create_task(charged_wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_other_tokens_follow_the_settings(call: Client) -> None:
    people = await guarded(call)
    admin = people["admin"]
    for _ in range(100):
        assert (await people["viewer"]("GET", "/v1/cluster/access"))[0] == 200  # by default as many as come
    await settings(admin, rate_per_token=1, burst_per_token=3)
    said = [(await people["viewer"]("GET", "/v1/cluster/access"))[0] for _ in range(4)]
    assert said == [200, 200, 200, 429]
    assert (await people["viewer"]("POST", "/v1/jobs", JOB))[0] == 429  # before it is said that he may not


async def test_wrong_rates_are_refused(call: Client) -> None:
    for wrong, where in (
        ({"burst": 5}, "/burst"),
        ({"rate": {"count": 5}}, "/rate/per"),
        ({"rate": {"per": "1s"}}, "/rate/count"),
        ({"rate": {"count": 0, "per": "1s"}}, "/rate/count"),
        ({"rate": {"count": 5, "per": "2d"}}, "/rate/per"),
        ({"rate": {"count": 5, "per": "1s"}, "burst": 0}, "/burst"),
    ):
        status, problem = await call("POST", "/v1/tokens", {"name": "t", "role": "viewer", **wrong})
        assert status == 422, (wrong, problem)
        assert problem["errors"][0]["pointer"] == where


@pytest.mark.parametrize("way", WAYS, ids=["short", "ordinary"])
@pytest.mark.parametrize("secret", ["", "rs_guessed"])
async def test_failures_of_an_address_are_counted(call: Client, way: dict[str, str], secret: str) -> None:
    people = await guarded(call)
    await settings(people["admin"], failures_per_address=2)
    stranger = As(call, secret)
    said = [(await stranger("POST", "/v1/jobs", JOB, way))[0] for _ in range(6)]
    assert said == [401, 401, 401, 401, 429, 429]  # two a second, and twice that at once
    assert call.headers["Retry-After"] == "1"
    assert (await people["editor"]("POST", "/v1/jobs", JOB, way))[0] == 201  # who is known comes in
    call.cluster.clock.forward(500)
    assert (await stranger("GET", "/v1/jobs"))[0] == 401
    assert (await stranger("GET", "/v1/jobs"))[0] == 429
    assert call.context.rates.refused["failures"] == 3


async def test_nobody_asks_the_leader_for_who_failed_too_often(call: Client) -> None:
    people = await guarded(call)
    await settings(people["admin"], failures_per_address=1)
    asked = 0
    catch_up = call.context.applied

    async def committed(timeout_s: float) -> int:
        nonlocal asked
        asked += 1
        return catch_up()

    call.context.log.committed = committed
    for number in range(10):
        status, _ = await As(call, unknown(str(number)))("GET", "/v1/jobs")
        assert status == (401 if number < 2 else 429)
    assert asked == 2


async def test_what_needs_no_token_is_counted_by_address(call: Client) -> None:
    for _ in range(3):
        assert (await call("GET", "/openapi.json"))[0] == 200
    people = await guarded(call)
    await settings(people["admin"], rate_per_address=1, burst_per_address=2)
    assert [(await call("GET", "/docs"))[0] for _ in range(3)] == [200, 200, 429]
    for _ in range(5):
        assert (await call("GET", "/livez"))[0] == 200
        assert (await call("GET", "/readyz"))[0] == 200
    await settings(people["admin"], rate_per_address=0)
    assert [(await call("GET", "/docs"))[0] for _ in range(3)] == [200, 200, 200]


async def test_an_open_cluster_counts_nobody_unknown(call: Client) -> None:
    await call("PATCH", "/v1/cluster/settings", {"rate_per_token": 1, "rate_per_address": 1}, MERGE)
    for way in WAYS:
        for _ in range(10):
            assert (await call("POST", "/v1/jobs", JOB, way))[0] == 201
            assert (await call("GET", "/docs"))[0] == 200


def test_nodes_and_owners_of_one_are_not_counted() -> None:
    rates = Rates()
    settings = Settings(rate_per_token=1)
    node = Caller(Role.VIEWER, name="node n2", counted=False)
    for _ in range(10):
        rates.of_token(node, settings, 0.0)
    known = Caller(Role.VIEWER, name="v", actor=1)
    rates.of_token(known, settings, 0.0)
    rates.of_token(known, settings, 0.0)
    with pytest.raises(Problem, match="requests a second"):
        rates.of_token(known, settings, 0.0)


def test_the_wait_is_the_time_until_one_more_may_come() -> None:
    buckets, rate = Buckets(), Rate(0.1, 2)
    assert [buckets.wait_s("a", rate, 0.0) for _ in range(3)] == [0.0, 0.0, 10.0]
    assert buckets.wait_s("a", rate, 4.0) == pytest.approx(6.0)
    assert buckets.wait_s("a", rate, 9.999) > 0
    assert buckets.wait_s("a", rate, 10.0) == 0.0
    assert buckets.wait_s("a", rate, 5.0) > 0  # a clock that goes back gives nothing
    assert [buckets.wait_s("a", rate, 1e9) > 0 for _ in range(3)] == [False, False, True]  # never more than a burst


def test_what_is_remembered_is_bounded() -> None:
    buckets, rate = Buckets(size_max=3), Rate(1, 1)
    for address in "abcd":
        assert buckets.wait_s(address, rate, 0.0) == 0.0
    assert len(buckets) == 3
    assert buckets.wait_s("d", rate, 0.0) > 0
    assert buckets.wait_s("a", rate, 0.0) == 0.0  # was not seen for the longest
    buckets.wait_s("e", rate, 0.0, take=False)
    assert len(buckets) == 3


def of_node_behind(call: Client, proxies: str) -> Rates:
    return dataclasses.replace(call.context, bounds=Bounds(proxies=(ipaddress.ip_network(proxies),))).rates


@pytest.mark.parametrize("way", WAYS, ids=["short", "ordinary"])
async def test_strangers_behind_a_proxy_are_not_one(call: Client, way: dict[str, str]) -> None:
    people = await guarded(call)
    await settings(people["admin"], failures_per_address=1, rate_per_address=1, burst_per_address=1)
    stranger = As(call, "rs_guessed")
    call.context.rates = of_node_behind(call, "192.0.2.0/24")  # other addresses than ours
    assert [(await stranger("POST", "/v1/jobs", JOB, way))[0] for _ in range(4)] == [401, 401, 429, 429]
    assert [(await As(call, "")("GET", "/openapi.json"))[0] for _ in range(2)] == [200, 429]
    call.context.rates = of_node_behind(call, "127.0.0.0/8")
    assert [(await stranger("POST", "/v1/jobs", JOB, way))[0] for _ in range(9)] == [401] * 9
    assert [(await As(call, "")("GET", "/openapi.json"))[0] for _ in range(9)] == [200] * 9
    await settings(people["admin"], rate_per_token=1, burst_per_token=2)
    said = [(await people["viewer"]("GET", "/v1/jobs"))[0] for _ in range(3)]
    assert said == [200, 200, 429]  # a token is one, wherever it comes from


def test_a_network_of_ipv6_is_one() -> None:
    assert network_of("2001:db8:1:2::1") == network_of("2001:db8:1:2:ffff::9") != network_of("2001:db8:1:3::1")
    assert network_of("::ffff:192.0.2.7") == network_of("192.0.2.7") != network_of("192.0.2.8")
    assert network_of("fe80::1%eth0") == network_of("fe80::2")
    assert network_of("") == ""


async def test_metrics_need_a_viewer_for_all_unless_it_is_said(call: Client) -> None:
    assert (await call("GET", "/metrics"))[0] == 200
    people = await guarded(call)
    one = As(call, await make(people["admin"], "of-a", "viewer", namespaces=["a"]))
    assert (await people["nobody"]("GET", "/metrics"))[0] == 401
    assert (await one("GET", "/metrics"))[0] == 403
    assert (await people["viewer"]("GET", "/metrics"))[0] == 200
    await settings(people["admin"], metrics_open=1)
    for who in (people["nobody"], one, people["viewer"]):
        assert (await who("GET", "/metrics"))[0] == 200


async def test_metrics_are_made_once_a_second(call: Client) -> None:
    made = 0

    class Counting:
        def describe(self) -> list[Any]:
            return []

        def collect(self) -> list[Any]:
            nonlocal made
            made += 1
            return []

    call.context.registry.register(Counting())  # type: ignore[arg-type]
    async with call.session.get(call.url + "/metrics") as answer:
        first = await answer.read()
    for _ in range(5):
        async with call.session.get(call.url + "/metrics") as answer:
            assert await answer.read() == first
    assert made == 1
    await call("GET", "/metrics")  # a second later
    assert made == 2
