"""A handler by name, and a python handler, of tests."""

from __future__ import annotations

import os

import raftsched


@raftsched.handler("send-invoice")
def send_invoice(number: int) -> dict[str, str | int]:
    return {"sent": number, "worker": os.environ["RAFTSCHED_WORKER"], "node": os.environ["RAFTSCHED_NODE_ID"]}


def add(a: int, b: int) -> int:
    return a + b
