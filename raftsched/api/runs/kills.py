"""POST /v1/instances:kill: those of a job or a namespace that are not at their end, as a backfill that was a mistake.

In bounded steps, as with dead letters: so many rows looked at and so many ended for one request; `next` in the answer
is where the following request goes on. The newest go first: of runs that wait for each other none starts because the
one before it was ended.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from aiohttp import web

from raftsched import names
from raftsched.api.auth.callers import check_permitted, must_name, within
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.cursors import decode_cursor, encode_cursor
from raftsched.api.http.idempotency import Named, done_before, noted, part, under
from raftsched.api.http.problems import FieldError, Problem
from raftsched.api.http.replies import reply
from raftsched.api.http.requests import NAMESPACE_HELP, catch_up
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.triggers import time_of
from raftsched.api.rows import SCAN_MAX, get_job, instances_of, paged, referred_job
from raftsched.api.serving import serves
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.commands import Kill, Rejected
from raftsched.core.ids import instance_text
from raftsched.core.model import FINAL, InstanceState, Job
from raftsched.core.rows import decode_instance
from raftsched.core.tables import ReadView, Table, u64
from raftsched.errors import RaftschedError
from raftsched.surface import runs as surface
from raftsched.surface.runs import KilledOut, KillFilterIn, KillIn, Refused

LOOK_MAX = 100_000  # rows looked at for one request
ACT_MAX = 5_000  # instances ended by one request
CHUNK = 200  # of them in one proposal
REFUSED_MAX = 100  # told in one answer
SAMPLE_MAX = 10  # named by a dry run
_KEY_BYTES = 24
_LISTING = "instances to end"
_ENDABLE = tuple(state for state in InstanceState if state not in FINAL)


_encode = msgspec.json.Encoder().encode


class _Wanted:
    """Says which instances are meant; what is wrong with that goes to `errors`."""

    def __init__(self, given: KillFilterIn, errors: list[FieldError]) -> None:
        self.said = {k: v for k, v in msgspec.to_builtins(given).items() if k != "state"}
        self.said["state"] = ",".join(sorted(given.state))
        self.name = given.job
        self.namespace = given.namespace
        self.states = {InstanceState[state] for state in given.state} or set(_ENDABLE)
        self.low_ms = time_of(given.from_, "/filter/from", errors) or 0
        high_ms = time_of(given.to, "/filter/to", errors)
        self.high_ms = TIME_MAX_MS if high_ms is None else high_ms
        self.before: bytes | None = None
        self._jobs: dict[int, Job | None] = {}
        if given.job is None and given.namespace is None:
            errors.append(FieldError("/filter", 'needs "job" or "namespace"; nothing ends all there is'))
        if given.namespace is not None and not names.NAMESPACE.allows(given.namespace):
            errors.append(FieldError("/filter/namespace", NAMESPACE_HELP))
        if self.low_ms > self.high_ms:
            errors.append(FieldError("/filter/from", 'is after "to"; it must not be', "inconsistent"))

    def rows(self, view: ReadView, last: bytes | None) -> Iterable[tuple[bytes, bytes]]:
        """Returns the instances below a key, the newest first. Raises Problem not-found."""
        if self.name is None:
            high = u64(self.high_ms) if last is None else min(u64(self.high_ms), last)
            return view.scan(Table.INSTANCES, u64(self.low_ms), high, reverse=True)
        job = referred_job(view, self.name, self.namespace)
        if job is None:
            said = self.name[:128]
            raise Problem("not-found", f'There is no job "{said}"; give an id, or a name with a namespace.')
        return instances_of(view, job, self.low_ms, self.high_ms, last)

    def match(self, view: ReadView, _: bytes, raw: bytes) -> bytes | None:
        """The key of the instance, when it is wanted."""
        row = decode_instance(raw)
        if row.state not in self.states or (row.notice is not None and self.name is None) or row.parent is not None:
            return None  # deliveries of webhooks are named by their job
        if self.name is None:
            if row.job_id not in self._jobs:
                self._jobs[row.job_id] = get_job(view, row.job_id)
            found = self._jobs[row.job_id]
            if found is None or found.namespace != self.namespace:
                return None
        return row.key


@serves(surface.KILL_MATCHING)
async def kill_matching(ctx: ApiContext, call: Call[KillIn]) -> web.Response:
    raw = call.raw
    given = call.body
    name = call.key("kill instances", raw)
    done = done_before(ctx, name)
    if done is not None:
        return reply(done.note)
    errors: list[FieldError] = []
    wanted = _Wanted(given.filter or KillFilterIn(), errors)
    if errors:
        raise Problem("invalid-body", errors=errors)
    if within() is not None:
        if wanted.namespace is not None:
            check_permitted(wanted.namespace)
        elif wanted.name is None:
            raise must_name('name one of them in "filter"')
    if given.cursor is not None:
        try:
            wanted.before = decode_cursor(_LISTING, wanted.said, given.cursor)
            if len(wanted.before) != _KEY_BYTES:
                raise ValueError("is not a cursor of this request")
        except ValueError as error:
            raise Problem("invalid-body", errors=[FieldError("/cursor", str(error), "unknown-reference")]) from None
    if not given.dry_run:
        await catch_up(ctx)
    keys, last = await _match(ctx, wanted)
    following = None if last is None else encode_cursor(_LISTING, wanted.said, last)
    if given.dry_run:
        sample = [instance_text(key) for key in keys[:SAMPLE_MAX]]
        return reply(_encode(KilledOut(len(keys), 0, [], sample, True, following)))
    killed, refused = await _kill(ctx, keys, name)
    body = _encode(KilledOut(len(keys), killed, refused, [], False, following))
    return reply(await noted(ctx, name, body))


async def _match(ctx: ApiContext, wanted: _Wanted) -> tuple[list[bytes], bytes | None]:
    """Keys of instances, the newest first, and where the next request goes on. A bounded number of rows at a time."""
    keys: list[bytes] = []
    last: bytes | None = wanted.before
    slices = Slices()
    for _ in range(LOOK_MAX // SCAN_MAX):
        found, last = await paged(ctx, slices, wanted.rows, ACT_MAX - len(keys), wanted.match, last)
        keys += found
        if last is None or len(keys) >= ACT_MAX:
            break
    return keys, last


async def _kill(ctx: ApiContext, keys: list[bytes], name: Named) -> tuple[int, list[Refused]]:
    """Each once, also when the request is taken up again after it broke off."""
    count = 0
    refused: list[Refused] = []
    for start in range(0, len(keys), CHUNK):
        chunk = keys[start : start + CHUNK]
        try:
            answers = await ctx.propose([under(part(name, key), Kill(key)) for key in chunk], ctx.propose_timeout_s)
        except RaftschedError as error:
            raise Problem(error.code, f"{error.detail} {count} were ended before; ask again for the rest.") from None
        for key, answer in zip(chunk, answers, strict=True):
            if not isinstance(answer, Rejected):
                count += 1
            elif len(refused) < REFUSED_MAX:
                refused.append(Refused(instance_text(key), answer.code, answer.detail))
    return count, refused
