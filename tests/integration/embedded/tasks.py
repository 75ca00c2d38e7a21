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
