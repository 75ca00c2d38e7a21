"""Changing a part of what there is: it is read, the change merged into it, and proposed as a change of what was read.
When somebody else changed it meanwhile all of that is done again, so that neither change gets lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem, from_rejected
from raftsched.api.http.requests import catch_up
from raftsched.core.commands import Accepted
from raftsched.core.namespaces import DEFAULTS_STALE

TRIES = 5
_MEANWHILE = frozenset({"stale", "stale-revision", DEFAULTS_STALE})  # it was changed after it was read


class Versioned(Protocol):
    @property
    def revision(self) -> int: ...


T = TypeVar("T", bound=Versioned)


async def amend(
    ctx: ApiContext,
    what: str,
    read: Callable[[], Awaitable[T]],
    wanted: int | None,
    command: Callable[[T], Awaitable[bytes]],
    *,
    again: Callable[[ApiContext], Awaitable[None]] = catch_up,
    keyed: bool = False,
) -> Accepted:
    """`what` begins what is said of it ("The queue"). `wanted`: the revision of If-Match. `command` makes of what was
    read an encoded command that is refused once that is not so any more; `again` is waited for before the next reading.
    `keyed`: under an Idempotency-Key, so that apply has to say whether it was done. Raises what these raise, what apply
    refused, and Problem stale-revision, stale."""
    code = "stale-revision"
    for _ in range(TRIES):
        was = await read()
        if wanted is not None and wanted != was.revision and not keyed:
            await again(ctx)
            was = await read()
            if wanted != was.revision:
                raise Problem("stale-revision", f"{what} is at revision {was.revision} now; read it again.")
        answer = (await ctx.propose((await command(was),), ctx.propose_timeout_s))[0]
        if isinstance(answer, Accepted):
            return answer
        if answer.code not in _MEANWHILE or (answer.code == "stale-revision" and wanted is not None):
            raise from_rejected(answer)
        code = "stale" if answer.code == "stale" else "stale-revision"
        await again(ctx)
    raise Problem(code, f"{what} changes too often; read it and send If-Match.")
