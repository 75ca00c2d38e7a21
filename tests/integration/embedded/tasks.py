"""Declared jobs and handlers of the tests: a module that other processes import, too."""

from __future__ import annotations

import os
from dataclasses import dataclass

import raftsched


@dataclass
class Order:
    number: int
    express: bool = False


@raftsched.handler("pack")
def pack(order: Order) -> dict[str, object]:
    return {"packed": order.number, "express": order.express, "here": os.getpid()}


@raftsched.job("count", cron="0 2 * * *", timezone="Europe/Madrid")
@raftsched.job("count-often", every="1d", namespace="shop", owner="ana", params={"most": 2})
def count(most: int = 1) -> int:
    return most


@raftsched.handler("chain")
def chain(number: int) -> dict[str, object]:
    """Enqueues another function from inside of its run."""
    return {"next": pack.enqueue(Order(number), delay="1h").id, "here": os.getpid()}


@raftsched.handler("chain-together", concurrency=4)
async def chain_together(number: int) -> dict[str, object]:
    return {"next": (await pack.options(delay="1h").aenqueue(Order(number))).id, "here": os.getpid()}
