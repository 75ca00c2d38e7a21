"""Handlers that register themselves: jobs say {"call": "send-invoice"} and need not know where it is."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import raftsched


@raftsched.handler("send-invoice")
def send_invoice(number: int, directory: str) -> dict[str, object]:
    """Writes the invoice once, however often it is tried: a run whose worker was lost is run again."""
    file = Path(directory) / f"invoice-{number}.txt"
    try:
        with file.open("x") as out:
            out.write(f"invoice {number}, run {os.environ['RAFTSCHED_INSTANCE_ID']}\n")
    except FileExistsError:
        print(f"invoice {number} was sent before")
    return {"number": number, "file": str(file)}


@raftsched.handler("remind-customer")
async def remind_customer(customer: str, after: float = 0.0) -> str:
    """A coroutine function does as well."""
    await asyncio.sleep(after)
    print(f"reminding {customer}")
    return customer
