"""/v1/dead-letters: what failed for good is listed, requeued, discarded.

Requeue and discard take ids or a filter, and go through what they match in bounded steps: so many rows looked at and so
many changed for one request; `next` in the answer is where the following request goes on. What becomes a dead letter
meanwhile is not matched, so that going on comes to an end. Each is done once: asked for again after an
answer that did not come, a request does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import orjson
from aiohttp import web

from raftsched import names
from raftsched.api.auth.callers import check_permitted, must_name, within
from raftsched.api.context import ApiContext, meta
from raftsched.api.http.call import Call
from raftsched.api.http.cursors import decode_cursor, encode_cursor
from raftsched.api.http.durations import format_time
from raftsched.api.http.idempotency import Named, done_before, noted, part, under
from raftsched.api.http.problems import FieldError, ParameterError, Problem
from raftsched.api.http.replies import reply, reply_page
from raftsched.api.http.requests import NAMESPACE_HELP, Query, bad_parameter, catch_up
from raftsched.api.http.slices import Slices
from raftsched.api.http.wanted_fields import wanted_fields
from raftsched.api.jobs.triggers import time_of
from raftsched.api.rows import SCAN_MAX, get_instance, get_job, paged, permitted_instance, referred_job
from raftsched.api.runs.instance_fields import INSTANCE, renderer_of
from raftsched.api.runs.render import JobNames
from raftsched.api.serving import serves
from raftsched.bounds import TIME_MAX_MS
from raftsched.core.commands import Discard, Rejected, Requeue
from raftsched.core.ids import instance_text, parse_instance
from raftsched.core.model import Job
from raftsched.core.subjects.notices import SYSTEM_NAMESPACE
from raftsched.core.tables import ReadView, Table, from_dead, from_u64, u64
from raftsched.errors import RaftschedError
from raftsched.surface import dead_letters as surface
from raftsched.surface.dead_letters import DeadFilterIn, DeadLetterOut, RequeueIn

LOOK_MAX = 100_000  # rows looked at for one request
ACT_MAX = 10_000  # dead letters requeued or discarded by one request
CHUNK = 200  # of them in one proposal
REFUSED_MAX = 100  # told in one answer
_DEAD_KEY_BYTES = 32
_ROOM = 8  # bytes of a cursor after the key: the end of the range
_LISTING = "dead letters"
_SINCE = "dead_since"
_FIELDS = (_SINCE, *INSTANCE)

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class _Filter:
    job: str | None
    namespace: str | None
    prefix: str | None
    low_ms: int
    high_ms: int
    _job_id: int | None = None
    _jobs: dict[int, Job | None] = field(default_factory=dict)

    def aim(self, view: ReadView) -> None:
        """Finds the job that is named. Raises Problem not-found."""
        if self.job is not None:
            found = referred_job(view, self.job, self.namespace)
            if found is None:
                raise Problem("not-found", f'There is no job "{self.job[:200]}"; give its id, or "namespace/name".')
            self._job_id = found.id

    def rows(self, view: ReadView, last: bytes | None, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        """Yields the dead letters of the time that is asked for, behind a key."""
        low, high = u64(self.low_ms), u64(self.high_ms)
        if last is not None:
            low, high = (low, min(high, last)) if reverse else (max(low, last + b"\0"), high)
        return view.scan(Table.DEAD, low, high, reverse=reverse) if low < high else iter(())

    def match(self, view: ReadView, instance: bytes) -> Job | None:
        """Its job, when the dead letter is wanted."""
        job_id = from_u64(instance[8:16])
        if self._job_id is not None and job_id != self._job_id:
            return None
        if job_id not in self._jobs:
            self._jobs[job_id] = get_job(view, job_id)
        job = self._jobs[job_id]
        if job is None or (self.namespace is not None and job.namespace != self.namespace):
            return None
        if job.namespace == SYSTEM_NAMESPACE and self.namespace is None and self._job_id is None:
            return None  # deliveries are shown by their namespace
        if self.prefix is not None and not (job.name or "").startswith(self.prefix):
            return None
        return job


def _of_query(query: Query) -> _Filter:
    low_ms, high_ms = query.time("from") or 0, query.time("to")
    found = _Filter(
        query.text("job"),
        query.text("namespace"),
        query.text("name_prefix"),
        low_ms,
        TIME_MAX_MS if high_ms is None else high_ms,
    )
    if found.low_ms > found.high_ms:
        raise bad_parameter("from", 'is after "to"; it must not be', "inconsistent")
    return found


@serves(surface.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    wanted = _of_query(query)
    reverse = query.choice("order", "asc", "desc") != "asc"
    fields = wanted_fields(query, _FIELDS)
    with ctx.read() as view:
        wanted.aim(view)
        names = JobNames(view)
    render = renderer_of(None if fields is None else [name for name in fields if name != _SINCE])

    def shown(view: ReadView, key: bytes, _: bytes) -> bytes | None:
        names.view = view
        row = None if wanted.match(view, from_dead(key)) is None else get_instance(view, from_dead(key))
        if row is None:
            return None
        instance = render(row, names)
        if fields is not None and _SINCE not in fields:
            return instance
        since = _encode(DeadLetterOut(format_time(from_u64(key[:8]))))
        return since if instance == b"{}" else since[:-1] + b"," + instance[1:]

    def rows(view: ReadView, last: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        return wanted.rows(view, last, reverse=reverse)

    items, last = await paged(ctx, Slices(), rows, query.limit(), shown, query.cursor(_LISTING))
    return reply_page(call.request, items, _LISTING, query.filters(), last)


# ---------------------------------------------------------------- requeue and discard


@serves(surface.REQUEUE)
async def requeue(ctx: ApiContext, call: Call[RequeueIn]) -> web.Response:
    raw = call.raw
    given = call.body
    name = call.key("requeue", raw)
    done = done_before(ctx, name)
    if done is not None:
        return reply(done.note)
    errors: list[FieldError] = []
    ids = None if given.ids is None else _keys_of(given.ids, lambda i: f"/ids/{i}", errors)
    wanted = _of_body(given.filter, errors)
    ways = (given.ids is not None) + (given.filter is not None) + given.all
    if ways != 1 or (wanted is not None and given.filter == DeadFilterIn()):
        errors.append(FieldError("", 'needs exactly one of "ids", a "filter" that is not empty, and "all": true'))
    if errors:
        raise Problem("invalid-body", errors=errors)
    if ids is None and within() is not None:
        _check_named(given.filter)
    filters = {k: v for k, v in msgspec.to_builtins(given.filter or DeadFilterIn()).items() if v is not None}
    chosen = _Chosen(ids, wanted or _Filter(None, None, None, 0, TIME_MAX_MS), filters)
    try:
        chosen.go_on("requeue", given.cursor)
    except ValueError as error:
        raise Problem("invalid-body", errors=[FieldError("/cursor", str(error), "unknown-reference")]) from None
    return await _act(ctx, chosen, "requeue", "requeued", Requeue, name, given.dry_run)


def _check_named(given: DeadFilterIn | None) -> None:
    """Refuses ids of namespaces that the caller is not for. Raises Problem forbidden."""
    if given is not None and given.namespace is not None:
        check_permitted(given.namespace)
    elif given is None or given.job is None:
        raise must_name('name one of them in "filter"')


def _of_body(given: DeadFilterIn | None, errors: list[FieldError]) -> _Filter | None:
    if given is None:
        return None
    if given.namespace is not None and not names.NAMESPACE.allows(given.namespace):
        errors.append(FieldError("/filter/namespace", NAMESPACE_HELP))
    low_ms = time_of(given.from_, "/filter/from", errors) or 0
    high_ms = time_of(given.to, "/filter/to", errors)
    high_ms = TIME_MAX_MS if high_ms is None else high_ms
    if low_ms > high_ms:
        errors.append(FieldError("/filter/from", 'is after "to"; it must not be', "inconsistent"))
    return _Filter(given.job, given.namespace, given.name_prefix, low_ms, high_ms)


@serves(surface.DISCARD)
async def discard(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    filters = {name: text for name in surface.FILTERS if (text := query.text(name)) is not None}
    ids = query.text("ids")
    if (ids is not None) + bool(filters) + query.flag("all") != 1:
        detail = f"a filter ({', '.join(surface.FILTERS)}), or all=true"
        error = ParameterError("all", "must be true without ids and a filter, and left out with one", "inconsistent")
        raise Problem("invalid-parameter", f"What to discard must be said in one way: ids, {detail}.", [error])
    name = call.key("discard", call.request.query_string.encode())
    done = done_before(ctx, name)
    if done is not None:
        return reply(done.note)
    keys = None
    if ids is not None:
        errors: list[FieldError] = []
        keys = _keys_of(ids.split(","), lambda _: "", errors)
        if errors:
            raise bad_parameter("ids", errors[0].detail)
    chosen = _Chosen(keys, _of_query(query), filters)
    try:
        chosen.go_on("discard", query.text("cursor"))
    except ValueError as error:
        raise bad_parameter("cursor", str(error), "unknown-reference") from None
    return await _act(ctx, chosen, "discard", "discarded", Discard, name, query.flag("dry_run"))


def _keys_of(ids: Sequence[str], place: Callable[[int], str], errors: list[FieldError]) -> list[bytes]:
    keys = []
    for i, text in enumerate(ids):
        key = parse_instance(text)
        if key is None:
            errors.append(FieldError(place(i), f'names no instance: "{text[:64]}"; ids are those of instances'))
        else:
            keys.append(key)
    return keys


@dataclass(slots=True)
class _Chosen:
    """Either these (keys of instances), or what the filter matches."""

    keys: list[bytes] | None
    wanted: _Filter
    said: dict[str, str]  # the filter as it was given
    after: bytes | None = None  # the DEAD key at which an earlier request stopped

    def go_on(self, listing: str, cursor: str | None) -> None:
        """Returns the position at which an earlier request stopped. Raises ValueError for a cursor that is none of
        these."""
        if cursor is None:
            return
        raw = decode_cursor(listing, self.said, cursor)
        if self.keys is not None or len(raw) != _DEAD_KEY_BYTES + _ROOM:
            raise ValueError("is not a cursor of this request")
        self.after = raw[:_DEAD_KEY_BYTES]
        self.wanted.high_ms = min(self.wanted.high_ms, from_u64(raw[_DEAD_KEY_BYTES:]))

    def next(self, listing: str) -> str | None:
        if self.after is None:
            return None
        return encode_cursor(listing, self.said, self.after + u64(self.wanted.high_ms))


async def _act(
    ctx: ApiContext,
    chosen: _Chosen,
    listing: str,
    done: str,
    make: Callable[[bytes], Any],
    name: Named,
    dry_run: bool,
) -> web.Response:
    """Acts on each once under the request's name, also when the request is taken up again after it broke off, and the
    answer is noted in the end."""
    keys = chosen.keys
    if keys is None:
        if not dry_run:
            await catch_up(ctx)
        keys = await _match(ctx, chosen)
    count, matched = 0, len(keys)
    refused: list[dict[str, str]] = []
    if chosen.keys is not None and within() is not None:
        keys = await _permitted(ctx, keys, refused)
    if not dry_run:
        for chunk in _chunks(keys):
            try:
                commands = [under(part(name, key), make(key)) for key in chunk]
                answers = await ctx.propose(commands, ctx.propose_timeout_s)
            except RaftschedError as error:
                raise Problem(
                    error.code, f"{error.detail} {count} were {done} before; ask again for the rest."
                ) from None
            for key, answer in zip(chunk, answers, strict=True):
                if not isinstance(answer, Rejected):
                    count += 1
                elif len(refused) < REFUSED_MAX:
                    refused.append({"id": instance_text(key), "code": answer.code, "detail": answer.detail})
    following = None if chosen.keys is not None else chosen.next(listing)
    body = orjson.dumps({"matched": matched, done: count, "refused": refused, "dry_run": dry_run, "next": following})
    return reply(body if dry_run else await noted(ctx, name, body))


async def _permitted(ctx: ApiContext, keys: list[bytes], refused: list[dict[str, str]]) -> list[bytes]:
    """Returns the keys that are the caller's. The others do not exist for them, and are refused as not found."""
    await catch_up(ctx)
    with ctx.read() as view:
        found = {key for key in keys if permitted_instance(view, key)}
    for key in keys:
        if key not in found and len(refused) < REFUSED_MAX:
            text = instance_text(key)
            refused.append({"id": text, "code": "not-found", "detail": f"There is no instance {text}."})
    return [key for key in keys if key in found]


def _chunks(keys: list[bytes]) -> Iterator[list[bytes]]:
    for start in range(0, len(keys), CHUNK):
        yield keys[start : start + CHUNK]


async def _match(ctx: ApiContext, chosen: _Chosen) -> list[bytes]:
    """Keys of instances, the oldest dead letters first. Reads a bounded number of rows at a time; `after` is None when
    all were looked at."""
    wanted = chosen.wanted
    keys: list[bytes] = []
    with ctx.read() as view:
        wanted.aim(view)
        if chosen.after is None:  # what becomes one from here on is not meant
            wanted.high_ms = min(wanted.high_ms, max(ctx.now_ms(), meta(view).now_ms) + 1)

    def take(view: ReadView, key: bytes, _: bytes) -> bytes | None:
        return None if wanted.match(view, from_dead(key)) is None else from_dead(key)

    slices = Slices()
    for _ in range(LOOK_MAX // SCAN_MAX):
        found, chosen.after = await paged(ctx, slices, wanted.rows, ACT_MAX - len(keys), take, chosen.after)
        keys += found
        if chosen.after is None or len(keys) >= ACT_MAX:
            break
    return keys
