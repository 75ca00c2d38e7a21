"""A web application whose work is done later by the scheduler inside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI
from tasks import send_invoice

import raftsched
from raftsched.starlette import client, lifespan, ready

node = raftsched.Node(
    id="n1",
    data=os.environ.get("SHOP_DATA", "data/n1"),
    http=os.environ.get("SHOP_HTTP", "127.0.0.1:7401"),
    handlers=["tasks"],
    jobs=["tasks"],
)
app = FastAPI(lifespan=lifespan(node))
app.add_route("/readyz", ready)
SENT = str(Path(os.environ.get("SHOP_SENT", "sent")).absolute())
Scheduler = Annotated[raftsched.AsyncClient, Depends(client)]


@app.post("/invoices/{number}", status_code=202)
async def invoice(number: int, scheduler: Scheduler) -> dict[str, str]:
    """Answers when the job is on disk. The same number gives the same job, however often it is asked for."""
    job = await send_invoice.aenqueue(number, SENT, key=f"invoice-{number}", client=scheduler)
    return {"job": job.id}


@app.get("/jobs/{job}")
async def state(job: str, scheduler: Scheduler) -> dict[str, str]:
    """Returns how far a job is."""
    return {"state": (await scheduler.jobs.get(job)).state}
