"""Writing jobs with the defaults of their namespace as they are: apply refuses what was taken from others, and then it
is read anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem
from raftsched.api.http.requests import catch_up
from raftsched.core.subjects.namespace import DEFAULTS_STALE
from raftsched.errors import RaftschedError

T = TypeVar("T")
TRIES = 5


async def retry_on_stale_defaults(ctx: ApiContext, write: Callable[[], Awaitable[T]]) -> T:
    """Returns what `write` returns, which reads the body and proposes it. Raises what that raises, and Problem
    overloaded when the namespace changes faster than that."""
    for _ in range(TRIES):
        try:
            return await write()
        except RaftschedError as error:
            if error.code != DEFAULTS_STALE:
                raise
        await refresh_defaults(ctx)
    raise defaults_change_too_often()


async def refresh_defaults(ctx: ApiContext) -> None:
    """Afterwards this node knows what had been said about namespaces before."""
    ctx.forget_defaults()
    await catch_up(ctx)
    ctx.forget_defaults()


def defaults_change_too_often() -> Problem:
    return Problem("overloaded", "The namespace changes too often; try again shortly.")
