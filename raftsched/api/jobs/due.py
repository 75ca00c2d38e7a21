"""Pages of jobs in the order of their next fire times.

A job whose next time the leader still owes has no row in DUE or DUE_LATER. It is put in its place by the time that is
shown of it meanwhile, so that who has just made or changed a job finds it where its answer said that it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import merge
from typing import TypeVar

from raftsched.api.context import ApiContext
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.render import next_fire_at_ms
from raftsched.api.rows import SCAN_MAX, following, page
from raftsched.core import rows
from raftsched.core.model import Job
from raftsched.core.rules.due_times import DueLaterFirst
from raftsched.core.rules.selection import Walk
from raftsched.core.tables import ReadView, Table, due_key, due_later_key, from_u64, u64

LOOK_ROWS = 1_000  # rows of DUE_LATER that are looked at between two looks at the time
OWED_MAX = 1_000  # jobs whose next times are computed for one page; those made later wait for the leader's

T = TypeVar("T")


def shown_times(ctx: ApiContext, now_ms: int) -> Callable[[Job], int | None]:
    """Returns what tells the next fire time that is shown of a job."""
    return lambda job: next_fire_at_ms(job, now_ms, ctx.calendar)


async def due_page(
    ctx: ApiContext,
    way: Walk,
    last: bytes | None,
    limit: int,
    take: Callable[[ReadView, bytes, bool], T | None],
    now_ms: int,
    *,
    reverse: bool = False,
) -> tuple[list[T], bytes | None]:
    """Returns what `take` makes of the jobs with these keys of DUE, in their order, and the key of the last row looked
    at when there may be more. `take` is also told whether the leader still owes this time. Days far ahead have to be
    sorted, and are looked into when nothing else fills the page."""
    far = DueLaterFirst(way, last, reverse=reverse, count=SCAN_MAX)
    owed = await _Owed.read(ctx, now_ms)
    slices = Slices()

    def look(view: ReadView, keys: Iterator[bytes]) -> tuple[list[T], bytes | None]:
        def taken(key: bytes, _: bytes) -> T | None:
            is_owed = owed.has(view, key)
            return None if is_owed is None else take(view, key, is_owed)

        return page(((key, b"") for key in keys), limit, taken)

    with ctx.read() as view:
        before = far.walk_before(view)
        near = way if before is None else before
        found = look(view, owed.among((key for key, _ in near.rows(view, last, reverse=reverse)), near, last, reverse))
    if before is None or found[1] is not None:
        return found
    done = False
    while not done:
        await slices.turn()
        with ctx.read() as view:
            done = far.read_rows(view, LOOK_ROWS)
    with ctx.read() as view:
        keys, end = far.rows(view)
        items, last = look(view, owed.among(keys, _up_to(way, end, reverse), last, reverse))
    return items, end if last is None else last


def _up_to(way: Walk, end: bytes | None, reverse: bool) -> Walk:
    """Returns the part of a walk that ends with this key; None: all of it."""
    if end is None:
        return way
    return way._replace(low=end) if reverse else way._replace(high=following(end))


class _Owed:
    """The next times that the leader owes, as they are shown: keys that DUE does not have."""

    def __init__(self) -> None:
        self._keys: dict[bytes, bytes | None] = {}  # by job; None: no next time is shown of it

    @classmethod
    async def read(cls, ctx: ApiContext, now_ms: int) -> _Owed:
        """Looks through the jobs that wait for the leader, in slices of time."""
        found = cls()
        slices, at, shown_time = Slices(), b"", shown_times(ctx, now_ms)
        while len(found._keys) < OWED_MAX:
            jobs: list[Job] = []
            with ctx.read() as view:
                for key, _ in view.scan(Table.UNSCHEDULED, at):
                    at = following(key)
                    job = rows.JOBS.get(view, from_u64(key))
                    if job is not None:
                        jobs.append(job)
                    if slices.over or len(found._keys) + len(jobs) >= OWED_MAX:
                        break
            if not jobs:
                break
            for job in jobs:
                due_ms = shown_time(job)
                found._keys[u64(job.id)] = None if due_ms is None else due_key(due_ms, job.id)
                await slices.turn()
        return found

    def among(self, keys: Iterator[bytes], within: Walk, last: bytes | None, reverse: bool) -> Iterator[bytes]:
        """Yields the keys of a walk, which are in their order, and those of these jobs in their places, each once."""
        _, low, high = within
        mine = sorted(
            (
                key
                for key in self._keys.values()
                if key is not None
                and key >= low
                and (high is None or key < high)
                and (last is None or (key < last if reverse else key > last))
            ),
            reverse=reverse,
        )
        return _each_once(merge(keys, mine, reverse=reverse)) if mine else keys

    def has(self, view: ReadView, key: bytes) -> bool | None:
        """Returns whether the leader owes this time of a job. None: the job is due at another one, which it has got
        since, or which comes before that of another one of its triggers."""
        job = key[8:]
        mine = self._keys.get(job)
        if job not in self._keys:
            return False
        if view.get(Table.UNSCHEDULED, job) is not None:
            return True if key == mine else None
        due_ms, job_id = from_u64(key[:8]), from_u64(job)
        has_row = (
            key != mine
            or view.get(Table.DUE, key) is not None
            or view.get(Table.DUE_LATER, due_later_key(due_ms, job_id)) is not None
        )
        return False if has_row else None


def _each_once(keys: Iterator[bytes]) -> Iterator[bytes]:
    before = None
    for key in keys:
        if key != before:
            yield key
        before = key
