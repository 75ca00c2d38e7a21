"""Functions that runs of the tests call."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from billing.models import Invoice
from django.db import connections

import raftsched
from raftsched.django import handler, job


@dataclass
class Order:
    number: int


@handler("note")
def note(number: int, words: list[str] | None = None) -> str:
    Invoice.objects.create(number=number)
    return " ".join(words or [])


@handler("note-async")
async def note_async(number: int) -> Any:
    await Invoice.objects.acreate(number=number)
    return await Invoice.objects.filter(number=number).acount()


@handler("spoken")
async def spoken(word: str) -> str:
    return f"{word}!"


@handler("look")
def look() -> dict[str, Any]:
    """Returns what a run finds: of the run before it, too."""
    left = [alias for alias in connections if connections[alias].connection is not None]
    list(Invoice.objects.all()[:1])
    return {"pid": os.getpid(), "left": left, "seen": os.environ.get("SHOP_DATA"), "id": os.environ.get("RAFTSCHED_ID")}


@handler("pack")
def pack(order: Order) -> int:
    return order.number


@handler("wrong")
def wrong() -> None:
    raise LookupError("nothing there")


@raftsched.handler("plain")  # which is not of this app, and goes to the same cluster
def plain() -> Any:
    return Invoice.objects.count()


@job("count-up", every="1h", namespace="ledger")
def count_up() -> int:
    return 1
