"""The conditions of a write: that a row is not there yet, or that it is still at a revision."""

from __future__ import annotations

from typing import Protocol

from raftsched.core.commands import Rejected

STALE = Rejected("stale")
REPEAT = "read it again and repeat the change"


class Versioned(Protocol):
    @property
    def revision(self) -> int: ...


class Put(Protocol):
    @property
    def if_none(self) -> bool: ...
    @property
    def if_revision(self) -> int | None: ...


def stale_revision(what: str, row: Versioned, then: str = "read it again") -> Rejected:
    return Rejected("stale-revision", f"{what} is at revision {row.revision} now; {then}.")


def put_refused(c: Put, row: Versioned | None, what: str, exists: str, absent: str) -> Rejected | None:
    """Returns why a row is not put, None when it may be. `what` names it ("The queue a"); `exists` and `absent` are
    the answers when it is there and must not be, and the other way round."""
    if c.if_none and row is not None:
        return Rejected("exists", exists)
    if c.if_revision is None or (row is not None and row.revision == c.if_revision):
        return None
    return Rejected("stale-revision", absent) if row is None else stale_revision(what, row)


def is_stale(if_revision: int | None, row: Versioned) -> bool:
    return if_revision is not None and row.revision != if_revision
