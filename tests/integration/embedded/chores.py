"""Handlers of an embedded node: one module that has them and the node they are given to, as programs are written."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import raftsched

node = raftsched.Node(id="chores", data="chores")  # never started: it shows that a handler's process makes no node run


@node.handler("add")
def add(left: int, right: int) -> dict[str, int]:
    return {"sum": left + right, "pid": os.getpid()}


@node.handler("add-later")
async def add_later(left: int, right: int) -> int:
    await asyncio.sleep(0.001)
    return left + right


def count() -> Iterator[int]:
    yield 1


def counted(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(**params: Any) -> Any:
        return {"counted": function(**params)}

    return call


@counted
def wrapped(of: str) -> str:
    return of.upper()


class Desk:
    @staticmethod
    def clear(things: int) -> int:
        return -things

    def tidy(self) -> None: ...


def hidden() -> str:
    return "the first of this name"


first_hidden = hidden


def hidden() -> str:  # type: ignore[no-redef]
    return "the second"
