"""POST /v1/jobs:batch: up to 10,000 jobs, a result for each, in order.

The body is cut into the texts of jobs, which are read one by one, in slices of time. Those next to each other that are
alike are one command. The commands travel in several proposals at once; the outcome of one proposal does not touch the
others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

import msgspec
from aiohttp import web

from raftsched.api.auth.callers import note_read_index
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.idempotency import Named, known, part
from raftsched.api.http.problems import Problem, body_of, from_rejected
from raftsched.api.http.replies import reply
from raftsched.api.http.requests import catch_up
from raftsched.api.http.slices import Slices
from raftsched.api.jobs.alike import AlikeJobs
from raftsched.api.jobs.joined import COMMAND_BYTES, JOBS_MAX, PROPOSAL_BYTES, Group
from raftsched.api.jobs.render import STATE_NAMES, next_fire_at_ms
from raftsched.api.jobs.resolving import TRIES, defaults_change_too_often, refresh_defaults
from raftsched.api.jobs.texts import AT_ONCE, job_texts
from raftsched.api.resources.webhooks_seen import is_limited, refuse_unseen
from raftsched.api.serving import serves
from raftsched.core.commands import Accepted, Answer, Rejected
from raftsched.core.ids import job_text
from raftsched.core.levels import JOBS_ARE_JOINED
from raftsched.core.subjects.idempotency import BATCH_PLACES, item_result
from raftsched.core.subjects.namespace import DEFAULTS_STALE
from raftsched.errors import RaftschedError
from raftsched.raft import settle
from raftsched.surface import jobs
from raftsched.surface.job_shapes import BatchMade

_encode = msgspec.json.Encoder().encode


@serves(jobs.CREATE_BATCH)
async def create_batch(ctx: ApiContext, call: Call[Any]) -> web.Response:
    lines = call.request.headers["Content-Type"].partition(";")[0].strip().lower() in jobs.LINES
    raw = call.raw
    # The digest of a large body takes long, and needs no interpreter meanwhile.
    name = call.key("batch", raw) if len(raw) <= AT_ONCE else await asyncio.to_thread(call.key, "batch", raw)
    slices = Slices()
    given = await job_texts(raw, slices, lines=lines)
    results: list[bytes] = [b""] * len(given)
    parts = [part(name, at) for at in range(-(-len(given) // BATCH_PLACES))]
    if name.key:
        await _answer_again(ctx, parts, results, slices)
    if is_limited() and b'"notify"' in raw:
        await catch_up(ctx)  # it is said here which webhooks there are for the caller
    for attempt in range(TRIES):
        proposals = await _propose(ctx, given, parts, results, slices)
        if not await _gather(ctx, proposals, results, slices, first_time=not attempt):
            break
        await refresh_defaults(ctx)  # the namespaces of some were changed meanwhile
    else:
        results = [result or _failure(defaults_change_too_often()) for result in results]
    return reply(b'{"items":[' + b",".join(results) + b"]}")


class _Proposal:
    """Commands on their way, and for each of them the places of its jobs in the batch."""

    def __init__(self, ctx: ApiContext, places: list[list[int]], groups: list[Group]) -> None:
        self.places = places
        self.answers: asyncio.Future[list[Answer]] = asyncio.get_running_loop().create_future()
        try:
            ctx.propose_then([group.command() for group in groups], partial(settle, self.answers))
        except RaftschedError as error:
            self.answers.set_exception(error)

    def each(self) -> Iterator[tuple[int, Answer]]:
        """Yields the places and the answers of their jobs. Raises RaftschedError."""
        for places, answer in zip(self.places, self.answers.result(), strict=True):
            several = isinstance(answer, Accepted) and answer.each
            yield from zip(places, several or repeat(answer, len(places)), strict=True)


async def _answer_again(ctx: ApiContext, parts: Sequence[Named], results: list[bytes], slices: Slices) -> None:
    """The results of what this node knows to be made under the request's name. Raises idempotency-mismatch, when they
    are those of another batch, before anything is done."""
    for at, name in enumerate(parts):
        use = known(ctx, name)
        if use is None:
            continue
        first = at * BATCH_PLACES
        for place in range(first, min(first + BATCH_PLACES, len(results))):
            with ctx.read() as view:
                answer = item_result(view, use, place - first)
            if answer is not None:
                _render(ctx, place, answer, results)
            await slices.turn()


async def _propose(
    ctx: ApiContext, given: Sequence[bytes], parts: Sequence[Named], results: list[bytes], slices: Slices
) -> list[_Proposal]:
    """Starts the proposals; what is refused here, or has a result already, has one afterwards."""
    jobs, settings, now_ms = AlikeJobs(), ctx.settings(), ctx.now_ms()
    joins = ctx.meta().level >= JOBS_ARE_JOINED
    proposals: list[_Proposal] = []
    groups: list[Group] = []
    places: list[list[int]] = []
    size = count = 0
    for place, raw in enumerate(given):
        if not results[place]:
            try:
                content = jobs.read(raw, settings, now_ms, ctx.defaults_of)
                if content.has_own_notify and is_limited():
                    with ctx.read() as view:
                        refuse_unseen(view, content, None)
            except Problem as problem:
                results[place] = _failure(problem)
            else:
                name, at = parts[place // BATCH_PLACES], place % BATCH_PLACES
                if joins and groups and groups[-1].takes(content, name.key, at):
                    places[-1].append(place)
                else:
                    groups.append(Group(content, *name, at))
                    places.append([place])
                    size += COMMAND_BYTES + len(raw)
                size += len(content.body) + len(content.name or "")
                count += 1
                if size >= PROPOSAL_BYTES or count >= JOBS_MAX:
                    proposals.append(_Proposal(ctx, places, groups))
                    places, groups, size, count = [], [], 0, 0
        if slices.over:
            await slices.next()
    if groups:
        proposals.append(_Proposal(ctx, places, groups))
    return proposals


async def _gather(
    ctx: ApiContext, proposals: list[_Proposal], results: list[bytes], slices: Slices, *, first_time: bool
) -> bool:
    """Returns True when some have to be proposed again; these have no result yet."""
    if proposals:
        await asyncio.wait([proposal.answers for proposal in proposals])
        note_read_index(ctx.applied())  # it is no task of this request that came by their entries
    failures = 0
    first: RaftschedError | None = None
    again = False
    for proposal in proposals:
        try:
            proposal.answers.result()
        except RaftschedError as error:
            first = first or error
            failures += 1
            failed = _failure(error)
            for place in chain.from_iterable(proposal.places):
                results[place] = failed
            continue
        for place, answer in proposal.each():
            again = _render(ctx, place, answer, results) or again
            if slices.over:
                await slices.next()
    if first_time and first is not None and failures == len(proposals) and first.code != "unknown-outcome":
        raise first  # nothing was proposed: the whole batch may be sent again
    return again


def _render(ctx: ApiContext, place: int, answer: Answer, results: list[bytes]) -> bool:
    """Puts a result into its place. Returns True when the job has to be proposed again."""
    if isinstance(answer, Rejected) and answer.code == DEFAULTS_STALE:
        return True
    if not isinstance(answer, Accepted) or answer.job is None:
        rejected = from_rejected(answer) if not isinstance(answer, Accepted) else RaftschedError("internal")
        results[place] = _failure(rejected)
        return False
    job = answer.job
    fire_at = job.fire_at_ms
    if fire_at is None or job.triggers:
        fire_at = next_fire_at_ms(job, ctx.now_ms(), ctx.calendar)
    when = None if fire_at is None else format_time(fire_at)
    made = BatchMade(201 if answer.created else 200, job_text(job.id), STATE_NAMES[job.state], job.revision, when)
    results[place] = _encode(made)
    return False


def _failure(error: RaftschedError) -> bytes:
    return _encode(body_of(error))
