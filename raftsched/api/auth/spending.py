"""Charges what a request costs the node's event loop to the token that made it (rates.py).

Each step of a handler is measured: from where it gets the loop until it waits again. What a request takes at first is
free, so that only work whose size the caller chose costs anything, however many small requests there are.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

from raftsched.api.auth.callers import Caller
from raftsched.api.auth.rates import processor_rate
from raftsched.api.context import ApiContext
from raftsched.system.clock import thread_s

FREE_S = 0.002  # of processor time, of each request

T = TypeVar("T")


class Spending:
    """The processor time of one request."""

    __slots__ = ("_ctx", "_free_s", "_who")

    def __init__(self, ctx: ApiContext, who: Caller) -> None:
        self._ctx = ctx
        self._who = who
        self._free_s = FREE_S

    def add(self, seconds: float) -> None:
        self._free_s -= seconds
        if self._free_s < 0:
            self._ctx.rates.spend(
                self._who, self._ctx.bounds.token_processor_ms, -self._free_s, self._ctx.clock.monotonic()
            )
            self._free_s = 0.0


def is_charged(ctx: ApiContext, who: Caller) -> bool:
    """Returns whether the caller's work is measured. That of nodes, of the owner of this one, and of callers without a
    token is not."""
    return bool(who.name) and who.counted and processor_rate(ctx.bounds.token_processor_ms) is not None


@coroutine
def charged(work: Coroutine[Any, Any, T], spending: Spending) -> Generator[Any, Any, T]:
    """Does the work, and returns what it returns."""
    given: Any = None
    error: BaseException | None = None
    while True:
        began_s = thread_s()
        try:
            awaited = work.send(given) if error is None else work.throw(error)
        except StopIteration as end:
            found: T = end.value
            return found
        finally:
            spending.add(thread_s() - began_s)
        given = error = None
        try:
            given = yield awaited
        except GeneratorExit:
            work.close()
            raise
        except BaseException as raised:
            error = raised
