"""The web application, with a node of its own in the same process and event loop.

An order that is not paid in time is cancelled: that is a job, made when the order is placed and deleted when it is
paid. It is on the disks of a majority before the customer gets an answer, so it will run, whoever is gone by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

import raftsched
from webshop import orders

NAMESPACE = "webshop"


@dataclass(frozen=True)
class Settings:
    id: str
    data: Path
    peers: str
    key: str
    http: str
    pay_within: str
    report: str

    @property
    def database(self) -> str:
        return str(self.data / "shop.db")


SETTINGS = web.AppKey("settings", Settings)
NODE = web.AppKey("node", raftsched.Node)


async def scheduler(app: web.Application) -> AsyncIterator[None]:
    """The node lives as long as the application. The shop is open at once: the node finds the others by itself."""
    given = app[SETTINGS]
    async with raftsched.Node(
        id=given.id,
        data=given.data / given.id,
        peers=given.peers,
        cluster_key_file=given.key,
        http=given.http,
        handlers=["webshop.tasks"],
    ) as node:
        app[NODE] = node
        reporting = asyncio.create_task(report_sales(node, given))
        yield
        reporting.cancel()
        await asyncio.wait([reporting])


async def report_sales(node: raftsched.Node, given: Settings) -> None:
    """Every process asks for the same job under the same name: there is one of it."""
    await node.ready(timeout=None)
    await node.jobs.put(
        f"{NAMESPACE}/sales-report",
        {
            "trigger": {"cron": given.report, "timezone": "UTC"},
            "handler": {"call": "sales-report"},
            "params": {"database": given.database},
        },
    )


async def place(request: web.Request) -> web.Response:
    given, node = request.app[SETTINGS], request.app[NODE]
    order = await asyncio.to_thread(orders.place, given.database, (await request.json())["item"])
    try:
        await node.jobs.create(
            name=f"cancel-{order}",
            namespace=NAMESPACE,
            trigger={"in": given.pay_within},
            handler={"call": "cancel-unpaid"},
            params={"database": given.database, "order": order},
            retry={"delays": ["5s", "1m"]},
        )
    except raftsched.ClientError as error:  # no majority is there
        await asyncio.to_thread(orders.change, given.database, order, "open", "cancelled")
        raise web.HTTPServiceUnavailable(text=f"no orders are taken at the moment: {error.detail}") from None
    return web.json_response({"order": order, "pay_within": given.pay_within}, status=201)


async def pay(request: web.Request) -> web.Response:
    given, order = request.app[SETTINGS], int(request.match_info["order"])
    if not await asyncio.to_thread(orders.change, given.database, order, "open", "paid"):
        raise web.HTTPConflict(text=f"order {order} is not open")
    try:
        await request.app[NODE].jobs.delete(f"{NAMESPACE}/cancel-{order}")
    except raftsched.NotFoundError:
        pass  # it has just run, and found the order paid
    return web.json_response({"order": order, "state": "paid"})


async def look(request: web.Request) -> web.Response:
    order = int(request.match_info["order"])
    state = await asyncio.to_thread(orders.state_of, request.app[SETTINGS].database, order)
    if state is None:
        raise web.HTTPNotFound(text=f"there is no order {order}")
    return web.json_response({"order": order, "state": state})


async def sales(request: web.Request) -> web.Response:
    return web.json_response({"reports": await asyncio.to_thread(orders.reports, request.app[SETTINGS].database)})


async def about(request: web.Request) -> web.Response:
    return web.json_response({"id": request.app[NODE].id, "leader": request.app[NODE].leader})


def make_app(settings: Settings) -> web.Application:
    settings.data.mkdir(parents=True, exist_ok=True)
    orders.prepare(settings.database)
    app = web.Application()
    app[SETTINGS] = settings
    app.cleanup_ctx.append(scheduler)
    app.add_routes(
        [
            web.get("/", about),
            web.post("/orders", place),
            web.post(r"/orders/{order:\d+}/pay", pay),
            web.get(r"/orders/{order:\d+}", look),
            web.get("/sales", sales),
        ]
    )
    return app
