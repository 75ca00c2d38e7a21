"""Changes of a part of a row: it is read, the change is merged into it, and proposed as a change of the row that was
read. When somebody else changed the row meanwhile, all of that is repeated, so that neither change gets lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from raftsched.api.context import ApiContext
from raftsched.api.http.problems import Problem, from_rejected
from raftsched.api.http.requests import catch_up
from raftsched.core.commands import Accepted
from raftsched.core.subjects.namespace import DEFAULTS_STALE

TRIES = 5
# It was changed after it was read, or deleted: there may be another one under its name.
_MEANWHILE = frozenset({"stale", "stale-revision", DEFAULTS_STALE, "not-found"})


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
    """Proposes a change of the row that `read` returns until nobody else comes in between, and returns apply's answer.

    `what` begins the error texts ("The queue"). `wanted`: the revision of If-Match. `command` makes an encoded command
    that is refused once the row is another one; `again` is awaited before the next reading. `keyed`: under an
    Idempotency-Key, so that apply has to decide whether it was done. Raises Problem stale-revision or stale, and all
    that apply refuses."""
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
        if answer.code not in _MEANWHILE:
            raise from_rejected(answer)
        await again(ctx)
        if answer.code == "stale-revision" and wanted is not None:
            await read()  # says that it is gone, where it is
            raise from_rejected(answer)
        code = "stale" if answer.code == "stale" else "stale-revision"
    raise Problem(code, f"{what} changes too often; read it and send If-Match.")
