"""GET /v1/audit: who asked for what, and it was done."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import get_args

import msgspec
from aiohttp import web

from raftsched.api.auth.access import access_of
from raftsched.api.context import ApiContext
from raftsched.api.http.call import Call
from raftsched.api.http.durations import format_time
from raftsched.api.http.replies import reply_page, reply_value
from raftsched.api.http.requests import Query, bad_parameter
from raftsched.api.http.slices import Slices
from raftsched.api.rows import paged
from raftsched.api.serving import serves
from raftsched.core.ids import job_text
from raftsched.core.rows import decode_record
from raftsched.core.subjects.access import ANONYMOUS, RINGS, Record, split_record
from raftsched.core.tables import ReadView, Table
from raftsched.surface import audit as surface
from raftsched.surface.audit import ChainOut, ChainsOut, RecordOut, RefusedOut, RefusedPage

_KINDS = dict(enumerate(RINGS))
_LISTING = "audit"
_ROOT = surface.LIST.path.rpartition("/")[0]  # of all addresses that are resources
_KEY_BYTES = 12  # of a cursor: a key without its ring

_encode = msgspec.json.Encoder().encode


@serves(surface.LIST)
async def list_all(ctx: ApiContext, call: Call[None]) -> web.Response:
    query = call.query
    kind = query.choice("kind", *get_args(surface.RecordKind))
    wanted = _Filter(query)
    newest = query.choice("order", *get_args(surface.AuditOrder)) != "oldest"
    start = query.cursor(_LISTING)
    if start is not None and len(start) != _KEY_BYTES:
        raise bad_parameter("cursor", "is not a cursor of this list", "unknown-reference")
    rings = [ring for ring, name in _KINDS.items() if kind in (None, name)]

    def rows(view: ReadView, last: bytes | None) -> Iterable[tuple[bytes, bytes]]:
        behind = start if last is None else last[1:]
        found = (_ring(view, ring, behind, newest) for ring in rings)
        return heapq.merge(*found, key=lambda row: row[0][1:], reverse=newest)

    items, last = await paged(ctx, Slices(), rows, query.limit(), lambda _, key, value: wanted(key, value))
    return reply_page(call.request, items, _LISTING, query.filters(), None if last is None else last[1:])


@serves(surface.CHAIN)
async def chain(ctx: ApiContext, call: Call[None]) -> web.Response:
    with ctx.read() as view:
        access = access_of(view)
        index = ctx.applied()
    chains = (access.chain(ring) for ring in _KINDS)
    return reply_value(ChainsOut(index, *(ChainOut(head.hex(), base.hex(), notes) for head, base, notes in chains)))


@serves(surface.REFUSALS)
async def refusals(ctx: ApiContext, call: Call[None]) -> web.Response:
    items = [
        RefusedOut(
            format_time(one.first_ms),
            format_time(one.last_ms),
            one.status,
            one.method,
            one.resource,
            one.actor or None,
            one.remote or None,
            one.count,
        )
        for one in ctx.refusals.newest_first()
    ]
    return reply_value(RefusedPage(ctx.node_id, items))


def _ring(view: ReadView, ring: int, start: bytes | None, newest: bool) -> Iterator[tuple[bytes, bytes]]:
    """Beyond `start` (a key without its ring; None: from one end), the newest first or last."""
    low, high = bytes((ring,)), bytes((ring + 1,))
    if start is None:
        return view.scan(Table.AUDIT, low, high, reverse=newest)
    if newest:
        return view.scan(Table.AUDIT, low, low + start, reverse=True)
    return view.scan(Table.AUDIT, low + start + b"\0", high)


class _Filter:
    def __init__(self, query: Query) -> None:
        self._actor = query.text("actor")
        self._resource = query.text("resource")
        self._operation = query.text("operation")
        self._namespace = query.text("namespace")
        self._from_ms, self._to_ms = query.time("from"), query.time("to")
        if self._from_ms is not None and self._to_ms is not None and self._from_ms > self._to_ms:
            raise bad_parameter("from", 'is after "to"; it must not be', "inconsistent")

    def __call__(self, key: bytes, raw: bytes) -> bytes | None:
        note = decode_record(raw)
        if self._from_ms is not None and note.at_ms < self._from_ms:
            return None
        if self._to_ms is not None and note.at_ms >= self._to_ms:
            return None
        if self._namespace is not None and note.namespace != self._namespace:
            return None
        if self._operation is not None and note.operation != self._operation:
            return None
        if self._actor is not None and self._actor not in (note.name or ANONYMOUS, _token(note)):
            return None
        if self._resource is not None and not _is_of(note, self._resource):
            return None
        return _encode(_shown(key, note))


def _is_of(note: Record, resource: str) -> bool:
    """A resource is the address, the first part of it, or the id of what it was about."""
    if resource in (note.resource, note.subject) or note.resource.startswith(f"{resource}/"):
        return True
    first, _, _ = note.operation.partition("_")
    return (
        resource == first
        or note.resource.startswith((f"{_ROOT}/{resource}/", f"{_ROOT}/{resource}:"))
        or note.resource == f"{_ROOT}/{resource}"
    )


def _token(note: Record) -> str | None:
    return job_text(note.actor) if note.actor else None


def _shown(key: bytes, note: Record) -> RecordOut:
    ring, index, position = split_record(key)
    return RecordOut(
        index=index,
        at=format_time(note.at_ms),
        kind=_KINDS[ring],  # type: ignore[arg-type]
        actor=note.name or ANONYMOUS,
        token=_token(note),
        operation=note.operation,
        resource=note.resource or None,
        namespace=note.namespace or None,
        subject=note.subject or None,
        job=note.job or None,
        count=note.count,
        remote=note.remote or None,
        change=_change(note.change),
        position=position,
        hash=note.hash.hex() or None,
    )


def _change(raw: bytes) -> object:
    """Returns a change as JSON; as text where another node sent something else."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return raw.decode("utf-8", "replace")
