"""`raftsched bench`: measures how fast a running cluster takes jobs and runs them. It deletes its own jobs again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from raftsched.cli.failures import Failure
from raftsched.cli.lazy import Group
from raftsched.cli.remote import format_option, options, remote
from raftsched.cli.terminal.output import print_fields, print_for_programs
from raftsched.cli.terminal.progress import Progress, progress_option

if TYPE_CHECKING:
    from raftsched.client.aio import AsyncClient
    from raftsched.client.http import Client

LOOK_S = 0.2


@click.group(cls=Group)
def bench() -> None:
    """Measure how fast a running cluster is, as seen from here. Jobs are made in a namespace of their own, and deleted
    again.

    It is load: other users will feel it. scripts/bench of the sources starts a cluster of its own, and measures more.
    """


_common = options(
    remote,
    click.option("--count", type=click.IntRange(1, 1_000_000), default=2_000, show_default=True, help="How many."),
    click.option("--concurrency", type=click.IntRange(1, 10_000), default=64, show_default=True, help="At one time."),
    format_option,
    progress_option,
)


@bench.command("create")
@_common
def create(client: Client, count: int, concurrency: int, fmt: str) -> None:
    """Create jobs, each acknowledged when it is on the disks of a majority, and delete them.

    \b
      raftsched bench create --count 500
    """
    _print(asyncio.run(_create(client, count, concurrency)), fmt)


@bench.command("run")
@_common
def run(client: Client, count: int, concurrency: int, fmt: str) -> None:
    """Run a job that does nothing so often, and wait until all runs have ended.

    \b
      raftsched bench run --count 200
    """
    _print(asyncio.run(_run(client, count, concurrency)), fmt)


@dataclass
class _Took:
    """The duration of each call, in seconds."""

    calls: list[float] = field(default_factory=list)
    failed: int = 0
    total: float = 0.0

    def said(self, what: str) -> dict[str, Any]:
        calls = sorted(self.calls)
        at = {f"p{p}_ms": round(calls[min(len(calls) - 1, len(calls) * p // 100)] * 1000, 1) for p in (50, 90, 99)}
        return {
            what: len(calls),
            "failed": self.failed,
            "seconds": round(self.total, 2),
            f"{what}_per_s": round(len(calls) / self.total) if self.total else None,
            **at,
        }


@asynccontextmanager
async def _own_namespace(via: Client) -> AsyncIterator[tuple[AsyncClient, str]]:
    """Gives a namespace; its jobs are deleted afterwards, whatever happened."""
    from raftsched.client.aio import AsyncClient

    name = f"bench-{os.urandom(4).hex()}"
    token = via.token(via.servers[0]) if callable(via.token) else via.token
    servers = ",".join(map(str, via.servers))
    async with AsyncClient(servers, token=token, **via.trust._asdict()) as client:
        try:
            yield client, name
        finally:
            await (await client.jobs.act("delete", namespace=name))


async def _all(what: str, count: int, concurrency: int, one: Callable[[int], Awaitable[object]]) -> _Took:
    from raftsched.client.errors import ClientError
    from raftsched.system.clock import SystemClock

    monotonic = SystemClock().monotonic
    took = _Took()
    numbers = iter(range(count))

    with Progress(what, count) as progress:

        async def go() -> None:
            for number in numbers:
                began = monotonic()
                try:
                    await one(number)
                except ClientError:
                    took.failed += 1
                else:
                    took.calls.append(monotonic() - began)
                progress.add()

        began = monotonic()
        await asyncio.gather(*(go() for _ in range(min(concurrency, count))))
        took.total = monotonic() - began
    if not took.calls:
        raise Failure(f"none of {count} succeeded; see 'raftsched doctor'")
    return took


async def _create(via: Client, count: int, concurrency: int) -> dict[str, Any]:
    async with _own_namespace(via) as (client, namespace):

        async def one(number: int) -> object:
            return await client.jobs.create(
                name=f"job-{number}", namespace=namespace, trigger={"manual": True}, handler={"exec": ["true"]}
            )

        return (await _all("creates", count, concurrency, one)).said("creates")


async def _run(via: Client, count: int, concurrency: int) -> dict[str, Any]:
    from raftsched.system.clock import SystemClock

    monotonic = SystemClock().monotonic
    async with _own_namespace(via) as (client, namespace):
        job = await client.jobs.create(
            name="job", namespace=namespace, trigger={"manual": True}, handler={"exec": ["true"]}, overlap="allow"
        )
        began = monotonic()
        took = await _all("asked", count, concurrency, lambda number: client.jobs.run(job))
        wanted = len(took.calls)
        with Progress("ended", wanted) as progress:
            while (left := (await client.jobs.get(job)).active) > 0:
                progress.at(wanted - left)
                await asyncio.sleep(LOOK_S)
        seconds = monotonic() - began
        stats = await client.jobs.stats(job)
        return {
            **took.said("asked"),
            "runs_per_s": round(wanted / seconds),
            "runs_succeeded": stats.instances.get("SUCCEEDED", 0),
        }


def _print(found: dict[str, Any], fmt: str) -> None:
    if not print_for_programs(fmt, found, *found):
        print_fields(found)
