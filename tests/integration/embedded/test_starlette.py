"""raftsched.starlette in real applications of FastAPI and Starlette."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

import raftsched
from raftsched.errors import StartupError
from raftsched.starlette import client, lifespan, ready
from tests.integration.embedded import tasks
from tests.support.patience import patient
from tests.support.ports import free_ports

MODULE = tasks.__name__
Scheduler = Annotated[raftsched.AsyncClient, Depends(client)]


def a_node(directory: Path, **settings: Any) -> raftsched.Node:
    (http,) = free_ports(1)
    return raftsched.Node(id="n1", data=directory / "n1", http=f"127.0.0.1:{http}", **settings)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """The application as a server has it: its lifespan is entered, and requests carry its state."""
    async with app.router.lifespan_context(app) as state:

        async def with_state(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": dict(state or {})}, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(with_state), base_url="http://app") as caller:
            yield caller


async def test_an_application_makes_jobs_by_a_dependency_and_starts_again(tmp_path: Path) -> None:
    entered: list[str] = []

    @asynccontextmanager
    async def own(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
        entered.append(str((await app.state.raftsched.jobs.get("default/count")).name))
        yield {"database": "a pool"}
        entered.append("left")

    node = a_node(tmp_path, handlers=[MODULE], jobs=[MODULE])
    app = FastAPI(lifespan=lifespan(node, inner=own, wait=patient(60)))
    app.add_route("/readyz", ready)

    @app.post("/packs/{number}")
    async def pack(number: int, scheduler: Scheduler, request: Request) -> dict[str, Any]:
        made = await tasks.pack.aenqueue(tasks.Order(number), key=str(number), client=scheduler)
        run = await scheduler.jobs.wait(made, timeout=patient(60))
        return {"state": run.state, "result": run.result, "database": request.state.database, "job": made.id}

    async with serving(app) as caller:
        first = (await caller.post("/packs/7", timeout=patient(60))).json()
        assert (first["state"], first["result"]["packed"], first["database"]) == ("SUCCEEDED", 7, "a pool")
        assert (await caller.get("/readyz")).json() == {"ready": True}
    assert entered == ["count", "left"]
    assert not node.running
    async with serving(app) as caller:
        again = (await caller.post("/packs/7", timeout=patient(60))).json()
        assert again["job"] == first["job"], "one key is one job, also after a start"


async def test_a_client_only_and_a_mounted_application(tmp_path: Path) -> None:
    async def name(request: Request) -> JSONResponse:
        job = await client(request).jobs.create(name="seen", trigger={"manual": True}, handler={"shell": "true"})
        return JSONResponse({"job": job.id})

    routes = [Route("/readyz", ready), Mount("/inner", Starlette(routes=[Route("/", name), Route("/readyz", ready)]))]
    async with a_node(tmp_path, jobs_as_node=True) as node:
        await node.ready()
        app = Starlette(routes=routes, lifespan=lifespan(node.url))
        async with serving(app) as caller:
            assert (await caller.get("/inner/")).json()["job"]
            assert (await caller.get("/inner/readyz")).json() == {"ready": True}
            many = await asyncio.gather(*(caller.get("/readyz") for _ in range(20)))
            assert {answer.status_code for answer in many} == {200}
    app = Starlette(routes=routes, lifespan=lifespan(lambda: raftsched.AsyncClient(node.url)))
    async with serving(app) as caller:
        answer = await caller.get("/readyz")
        assert answer.status_code == 503
        assert answer.json() == {"ready": False, "reason": "unreachable"}, "it tells strangers no addresses"


async def test_readiness_asks_the_cluster_once_for_all_who_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def get(*_: Any, **__: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {}

    app = Starlette(routes=[Route("/readyz", ready)], lifespan=lifespan("127.0.0.1:1"))
    async with serving(app) as caller:
        monkeypatch.setattr("raftsched.client.transport.Transport.get", get)
        monkeypatch.setattr("raftsched.starlette.KEPT_S", float("inf"))
        await asyncio.gather(*(caller.get("/readyz") for _ in range(20)))
    assert asked == 1


async def test_a_second_process_at_one_data_directory_is_told_so(tmp_path: Path) -> None:
    async with a_node(tmp_path):
        app = Starlette(lifespan=lifespan(a_node(tmp_path)))
        with pytest.raises(StartupError, match=r"data directory .* is in use by another node process"):
            async with serving(app):
                pass


async def test_a_node_that_waits_in_vain_does_not_start_the_application(tmp_path: Path) -> None:
    http, raft, other = free_ports(3)
    peers = {"n1": f"127.0.0.1:{raft}", "n2": f"127.0.0.1:{other}"}
    node = raftsched.Node(id="n1", data=tmp_path / "n1", http=f"127.0.0.1:{http}", peers=peers, insecure_raft=True)
    with pytest.raises(TimeoutError, match="n1 is not ready"):
        async with serving(Starlette(lifespan=lifespan(node, wait=0.1))):
            pass
    assert not node.running
    app = Starlette(routes=[Route("/readyz", ready)], lifespan=lifespan(node))
    async with serving(app) as caller:
        assert (await caller.get("/readyz")).status_code == 503


async def test_a_lifespan_refuses_what_it_would_ignore() -> None:
    with pytest.raises(ValueError, match="wait is for a node"):
        lifespan("http://127.0.0.1:1", wait=3)
    async with raftsched.AsyncClient("http://127.0.0.1:1") as made:
        with pytest.raises(TypeError, match="give lifespan a function that makes it"):
            lifespan(made)  # type: ignore[arg-type]


async def test_an_endpoint_without_a_scheduler_says_what_to_do() -> None:
    async def name(request: Request) -> JSONResponse:
        return JSONResponse({"at": str(client(request))})

    async with serving(Starlette(routes=[Route("/", name), Route("/readyz", ready)])) as caller:
        for path in ("/", "/readyz"):
            with pytest.raises(RuntimeError, match=r"give it lifespan=raftsched\.starlette\.lifespan"):
                await caller.get(path)


def test_without_starlette_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['starlette'] = None; import raftsched.starlette"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "raftsched.starlette needs Starlette: pip install fastapi" in done.stderr
