"""Bounds how much one search of a schedule may look at.

Who writes a rule chooses how long it takes to search, so a search has so many steps and is refused beyond them. Steps
are counted, and no time is measured: what one node accepts the others accept, however busy they are. For the same
reason a look into a cache costs as many steps as the computation would (`pay`). A step takes about a microsecond.

One call of a function of this room is one search; what it calls within is part of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, Token

from raftsched.core.model import Trigger, TriggerKind
from raftsched.schedule.errors import CALENDAR_POINTER, RULE_POINTER, TriggerError

STEPS_MAX = 3_300
CALENDAR_STEPS_MAX = 30_000  # where times in excluded hours are passed over
COUNT_STEPS_MAX = 40_000  # of what is asked about a stretch of time, which may be years
PAID_KEPT = 16  # results that a search has paid for and looks at again for nothing; a cache keeps as many


class TooLong(TriggerError):
    """The search has used up its steps."""

    def __init__(self, pointer: str) -> None:
        super().__init__(pointer, f"takes too long to search: {_remedy(pointer)}", "out-of-range")


def _remedy(pointer: str) -> str:
    if pointer == RULE_POINTER:
        return (
            f"no time is found in {STEPS_MAX:,} steps; use an INTERVAL that goes into a day, a COUNT that is reached"
            " sooner, or a later starts_at"
        )
    return "the calendar begins and ends to exclude too often; use one with fewer hours, or ask for a shorter time"


class Steps:
    """Counts the steps of what is computed within. `most`: TooLong is raised beyond these, with the pointer. `total`:
    with those of other work within, which has bounds of its own. `done`: what no cache saved of these. `kept`: the
    result is kept with its steps, and whoever looks at it pays for them."""

    __slots__ = ("_kept", "_outer", "_paid", "_token", "done", "most", "pointer", "spent", "total")

    def __init__(self, most: int | None = None, pointer: str = "", *, kept: bool = False) -> None:
        self.most = most
        self.pointer = pointer
        self.spent = self.total = self.done = 0
        self._kept = kept
        self._paid: dict[Hashable, None] = {}  # the latest last

    def __enter__(self) -> Steps:
        self._outer = _current.get()
        self._token: Token[Steps | None] = _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        _current.reset(self._token)
        if self._outer is not None:
            self._outer.done += self.done
            if not self._kept or kind is not None:  # what failed is not kept
                self._outer.total += self.total

    def add(self, steps: int) -> None:
        """Raises:
        TooLong: the search has no steps left.
        """
        self.spent += steps
        self.total += steps
        if self.most is not None and self.spent > self.most:
            raise TooLong(self.pointer)

    def has_paid(self, key: Hashable) -> bool:
        """Returns whether it has paid for this already; from now on it has."""
        known = key in self._paid
        self._paid.pop(key, None)
        if len(self._paid) >= PAID_KEPT:
            del self._paid[next(iter(self._paid))]
        self._paid[key] = None
        return known


_current: ContextVar[Steps | None] = ContextVar("raftsched_search", default=None)
_PART: AbstractContextManager[None] = nullcontext()


def search(trigger: Trigger, most: int | None = None) -> AbstractContextManager[Steps | None]:
    """Bounds what is searched within; where a search is on its way already, it is a part of that one."""
    current = _current.get()
    if current is not None and current.most is not None:
        return _PART
    of_rule = trigger.kind is TriggerKind.RRULE and trigger.calendar is None
    if most is None:
        most = STEPS_MAX if trigger.calendar is None else CALENDAR_STEPS_MAX
    return Steps(most, RULE_POINTER if of_rule else CALENDAR_POINTER)


def spend(steps: int) -> None:
    """Raises:
    TooLong: the search has no steps left.
    """
    current = _current.get()
    if current is not None:
        current.done += steps
        current.add(steps)


def pay(key: Hashable, steps: int, *, apart: bool = False) -> None:
    """Spends what it took to make a result that is kept, once in a search, whether it was made now or found in a cache.
    `apart`: a search with bounds of its own made it.

    Raises:
    TooLong: the search has no steps left.
    """
    current = _current.get()
    if current is None or current.has_paid(key):
        return
    if apart:
        current.total += steps
    else:
        current.add(steps)
